/* A peer for Lightseal's tests: DTLS 1.3 and 1.2 by NSS.
 *
 *     serve ADDR    echoes what it receives
 *     connect ADDR  sends each line of its standard input; after the line "reconnect" it connects again
 *
 * The flags are those of every peer. It prints one line for each event: "ready PORT", "connected",
 * "received TEXT". It ends when its standard input ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cert.h>
#include <keyhi.h>
#include <nspr.h>
#include <nss.h>
#include <pk11pub.h>
#include <private/pprio.h>
#include <secerr.h>
#include <ssl.h>
#include <sslexp.h>
#include <sslproto.h>

#define SERVER_NAME "server.example"
#define DATAGRAM_BYTES 16384

static const char *flag_suite, *flag_identity, *flag_key, *flag_credential, *flag_files, *flag_group;
static int mutual, retried, resumed, is_server;
static struct sockaddr_in address;
static CERTCertificate *own_certificate;
static SECKEYPrivateKey *own_key;
static SECKEYPublicKey *authority_key;
static PK11SymKey *psk;

static void fail(const char *what) {
    PRErrorCode code = PR_GetError();
    const char *name = PR_ErrorToName(code);
    fprintf(stderr, "NSS: %s: %s (%d)\n", what, name ? name : "no name", code);
    exit(1);
}

static void check(SECStatus status, const char *what) {
    if (status != SECSuccess) fail(what);
}

static void say(const char *line) {
    puts(line);
    fflush(stdout);
}

/* The content of a file of this end. */
static SECItem file(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", flag_files, name);
    SECItem item = {siBuffer, malloc(65536), 0};
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        fprintf(stderr, "NSS: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    item.len = fread(item.data, 1, 65536, stream);
    fclose(stream);
    return item;
}

static SECItem own_file(const char *kind) {
    char name[256];
    snprintf(name, sizeof name, "%s-%s.%s", flag_credential, is_server ? "server" : "client", kind);
    return file(name);
}

static CERTCertificate *certificate(SECItem der) {
    CERTCertificate *made = CERT_NewTempCertificate(CERT_GetDefaultCertDB(), &der, NULL, PR_FALSE, PR_TRUE);
    if (!made) fail("a certificate");
    return made;
}

/* Accepts the certificates that the authority has issued, and of servers only the right name. */
static SECStatus accept_certificate(void *unused, PRFileDesc *end, PRBool check_signature, PRBool of_client) {
    (void)unused;
    (void)check_signature;
    CERTCertificate *other = SSL_PeerCertificate(end);
    if (!other) return SECFailure;
    SECStatus status = CERT_VerifySignedDataWithPublicKey(&other->signatureWrap, authority_key, NULL);
    if (status == SECSuccess && !of_client) status = CERT_VerifyCertName(other, SERVER_NAME);
    CERT_DestroyCertificate(other);
    return status;
}

static SECStatus client_certificate(void *unused, PRFileDesc *end, CERTDistNames *authorities,
                                    CERTCertificate **its_certificate, SECKEYPrivateKey **its_key) {
    (void)unused;
    (void)end;
    (void)authorities;
    *its_certificate = CERT_DupCertificate(own_certificate);
    *its_key = SECKEY_CopyPrivateKey(own_key);
    return SECSuccess;
}

static SSLNamedGroup group_named(const char *name) {
    if (!strcmp(name, "x25519")) return ssl_grp_ec_curve25519;
    if (!strcmp(name, "secp256r1")) return ssl_grp_ec_secp256r1;
    if (!strcmp(name, "secp384r1")) return ssl_grp_ec_secp384r1;
    fprintf(stderr, "NSS: no group %s\n", name);
    exit(1);
}

static int with_psk(void) {
    return !strcmp(flag_credential, "psk");
}

static PRUint16 suite_named(const char *name, int *version) {
    static const struct {
        const char *name;
        PRUint16 suite;
        int version;
    } suites[] = {
        {"TLS_AES_128_GCM_SHA256", TLS_AES_128_GCM_SHA256, 13},
        {"TLS_AES_256_GCM_SHA384", TLS_AES_256_GCM_SHA384, 13},
        {"TLS_CHACHA20_POLY1305_SHA256", TLS_CHACHA20_POLY1305_SHA256, 13},
        {"psk_dhe_ke/TLS_AES_128_GCM_SHA256", TLS_AES_128_GCM_SHA256, 13},
        {"psk_dhe_ke/TLS_CHACHA20_POLY1305_SHA256", TLS_CHACHA20_POLY1305_SHA256, 13},
        {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, 12},
        {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, 12},
        {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, 12},
        {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, 12},
    };
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
        if (!strcmp(suites[i].name, name)) {
            *version = suites[i].version;
            return suites[i].suite;
        }
    }
    fprintf(stderr, "NSS: no suite %s\n", name);
    exit(1);
}

/* One end of a new connection over a copy of the socket. */
static PRFileDesc *new_end(int udp) {
    PRFileDesc *datagrams = PR_ImportUDPSocket(dup(udp));
    PRSocketOptionData nonblocking = {PR_SockOpt_Nonblocking, {.non_blocking = PR_TRUE}};
    if (!datagrams || PR_SetSocketOption(datagrams, &nonblocking) != PR_SUCCESS) fail("a socket");
    PRFileDesc *end = DTLS_ImportFD(NULL, datagrams);
    if (!end) fail("DTLS_ImportFD");
    int version;
    PRUint16 suite = suite_named(flag_suite, &version);
    SSLVersionRange range = {SSL_LIBRARY_VERSION_TLS_1_2, SSL_LIBRARY_VERSION_TLS_1_2};
    if (version == 13) range.min = range.max = SSL_LIBRARY_VERSION_TLS_1_3;
    check(SSL_VersionRangeSet(end, &range), "SSL_VersionRangeSet");
    for (PRUint16 i = 0; i < SSL_NumImplementedCiphers; i++) {
        PRUint16 each = SSL_ImplementedCiphers[i];
        check(SSL_CipherPrefSet(end, each, each == suite), "SSL_CipherPrefSet");
    }
    SSLNamedGroup groups[3] = {group_named(flag_group), ssl_grp_ec_secp256r1, ssl_grp_ec_secp384r1};
    unsigned count = 1;
    if (version == 12) {
        /* The groups of DTLS 1.2 are those of certificates too (RFC 8422, section 5.1). */
        if (groups[0] == ssl_grp_ec_secp256r1) groups[1] = ssl_grp_ec_curve25519;
        if (groups[0] == ssl_grp_ec_secp384r1) groups[2] = ssl_grp_ec_curve25519;
        count = 3;
    } else if (retried && !is_server) {
        groups[1] = groups[0];
        groups[0] = groups[1] == ssl_grp_ec_secp256r1 ? ssl_grp_ec_curve25519 : ssl_grp_ec_secp256r1;
        count = 2;
    }
    check(SSL_NamedGroupConfig(end, groups, count), "SSL_NamedGroupConfig");
    check(SSL_SendAdditionalKeyShares(end, 0), "SSL_SendAdditionalKeyShares");
    check(SSL_OptionSet(end, SSL_SECURITY, PR_TRUE), "SSL_SECURITY");
    check(SSL_OptionSet(end, SSL_ENABLE_EXTENDED_MASTER_SECRET, PR_TRUE), "SSL_ENABLE_EXTENDED_MASTER_SECRET");
    check(SSL_OptionSet(end, SSL_ENABLE_SESSION_TICKETS, resumed), "SSL_ENABLE_SESSION_TICKETS");
    check(SSL_OptionSet(end, SSL_NO_CACHE, !resumed), "SSL_NO_CACHE");
    check(SSL_OptionSet(end, is_server ? SSL_HANDSHAKE_AS_SERVER : SSL_HANDSHAKE_AS_CLIENT, PR_TRUE), "the role");
    if (with_psk()) {
        check(SSL_AddExternalPsk(end, psk, (const PRUint8 *)flag_identity, strlen(flag_identity), ssl_hash_sha256),
              "SSL_AddExternalPsk");
    }
    check(SSL_AuthCertificateHook(end, accept_certificate, NULL), "SSL_AuthCertificateHook");
    if (is_server) {
        if (!with_psk()) check(SSL_ConfigServerCert(end, own_certificate, own_key, NULL, 0), "SSL_ConfigServerCert");
        check(SSL_OptionSet(end, SSL_REQUEST_CERTIFICATE, mutual), "SSL_REQUEST_CERTIFICATE");
        check(SSL_OptionSet(end, SSL_REQUIRE_CERTIFICATE, mutual ? SSL_REQUIRE_ALWAYS : SSL_REQUIRE_NEVER),
              "SSL_REQUIRE_CERTIFICATE");
    } else {
        check(SSL_SetURL(end, SERVER_NAME), "SSL_SetURL");
        if (mutual) check(SSL_GetClientAuthDataHook(end, client_certificate, NULL), "SSL_GetClientAuthDataHook");
    }
    check(SSL_ResetHandshake(end, is_server), "SSL_ResetHandshake");
    return end;
}

static int is_waiting(void) {
    return PR_GetError() == PR_WOULD_BLOCK_ERROR;
}

/* Reads the next line of standard input, if it is complete. Returns -1 at its end. */
static int next_line(char *line, size_t room) {
    static char buffer[65536];
    static size_t length;
    static int at_end;
    char *end = memchr(buffer, '\n', length);
    if (!end && !at_end) {
        struct pollfd input = {0, POLLIN, 0};
        if (poll(&input, 1, 0) > 0) {
            ssize_t count = read(0, buffer + length, sizeof buffer - length);
            if (count > 0) length += (size_t)count;
            else at_end = 1;
        }
        end = memchr(buffer, '\n', length);
    }
    if (!end) return at_end ? -1 : 0;
    size_t count = (size_t)(end - buffer);
    if (count >= room) count = room - 1;
    memcpy(line, buffer, count);
    line[count] = 0;
    length -= (size_t)(end + 1 - buffer);
    memmove(buffer, end + 1, length);
    return 1;
}

static void run(void) {
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in *own = is_server ? &address : &any;
    if (udp < 0 || bind(udp, (struct sockaddr *)own, sizeof *own)) {
        perror("NSS: bind");
        exit(1);
    }
    if (is_server) {
        char ready[32];
        snprintf(ready, sizeof ready, "ready %d", ntohs(address.sin_port));
        say(ready);
    } else if (connect(udp, (struct sockaddr *)&address, sizeof address)) {
        perror("NSS: connect");
        exit(1);
    }
    PRFileDesc *end = is_server ? NULL : new_end(udp);
    int connected = 0;
    char line[65536];
    for (;;) {
        struct pollfd both[2] = {{udp, POLLIN, 0}, {0, POLLIN, 0}};
        poll(both, 2, 10);
        if (!end && (both[0].revents & POLLIN)) {
            struct sockaddr_in client;
            socklen_t size = sizeof client;
            char first;
            if (recvfrom(udp, &first, 1, MSG_PEEK, (struct sockaddr *)&client, &size) < 0) continue;
            if (connect(udp, (struct sockaddr *)&client, size)) continue;
            end = new_end(udp);
        }
        if (end && !connected) {
            if (SSL_ForceHandshake(end) == SECSuccess) {
                connected = 1;
                say("connected");
            } else if (!is_waiting()) {
                fail("the handshake");
            }
        }
        while (end && connected) {
            char payload[DATAGRAM_BYTES];
            PRInt32 count = PR_Read(end, payload, sizeof payload);
            if (count < 0 && is_waiting()) break;
            if (count <= 0 && is_server) {
                /* The client has gone. The next one may come from the same address. */
                PR_Close(end);
                end = NULL;
                connected = 0;
                break;
            }
            if (count <= 0) fail("the connection ended");
            printf("received %.*s\n", (int)count, payload);
            fflush(stdout);
            if (is_server && PR_Write(end, payload, count) < 0) fail("PR_Write");
        }
        int more;
        while ((is_server || connected) && (more = next_line(line, sizeof line)) != 0) {
            if (more < 0) return;
            if (!strcmp(line, "reconnect")) {
                PR_Shutdown(end, PR_SHUTDOWN_SEND);
                PR_Close(end);
                close(udp);
                udp = socket(AF_INET, SOCK_DGRAM, 0);
                if (udp < 0 || connect(udp, (struct sockaddr *)&address, sizeof address)) exit(1);
                end = new_end(udp);
                connected = 0;
            } else if (!is_server && PR_Write(end, line, (PRInt32)strlen(line)) < 0) {
                fail("PR_Write");
            }
        }
    }
}

int main(int count, char **words) {
    if (count < 3) {
        fprintf(stderr, "usage: serve|connect ADDR [--FLAG VALUE]...\n");
        return 2;
    }
    is_server = !strcmp(words[1], "serve");
    char *colon = strrchr(words[2], ':');
    if (!colon) return 2;
    *colon = 0;
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)atoi(colon + 1));
    inet_pton(AF_INET, words[2], &address.sin_addr);
    for (int i = 3; i + 1 < count; i += 2) {
        const char *name = words[i], *value = words[i + 1];
        if (!strcmp(name, "--suite")) flag_suite = value;
        else if (!strcmp(name, "--identity")) flag_identity = value;
        else if (!strcmp(name, "--key-hex")) flag_key = value;
        else if (!strcmp(name, "--credential")) flag_credential = value;
        else if (!strcmp(name, "--files")) flag_files = value;
        else if (!strcmp(name, "--group")) flag_group = value;
        else if (!strcmp(name, "--mutual")) mutual = !strcmp(value, "yes");
        else if (!strcmp(name, "--retried")) retried = !strcmp(value, "yes");
        else if (!strcmp(name, "--resumed")) resumed = !strcmp(value, "yes");
    }
    check(NSS_NoDB_Init(NULL), "NSS_NoDB_Init");
    check(NSS_SetDomesticPolicy(), "NSS_SetDomesticPolicy");
    if (is_server) check(SSL_ConfigServerSessionIDCache(0, 0, 0, NULL), "SSL_ConfigServerSessionIDCache");
    PK11SlotInfo *slot = PK11_GetInternalKeySlot();
    if (with_psk()) {
        unsigned char key[64];
        unsigned length = 0;
        for (const char *at = flag_key; at[0] && at[1] && length < sizeof key; at += 2) {
            char pair[3] = {at[0], at[1], 0};
            key[length++] = (unsigned char)strtoul(pair, NULL, 16);
        }
        SECItem item = {siBuffer, key, length};
        psk = PK11_ImportSymKey(slot, CKM_HKDF_KEY_GEN, PK11_OriginUnwrap, CKA_DERIVE, &item, NULL);
        if (!psk) fail("PK11_ImportSymKey");
    } else {
        CERTCertificate *authority = certificate(file("authority.crt"));
        authority_key = CERT_ExtractPublicKey(authority);
        if (!authority_key) fail("the authority's key");
        if (is_server || mutual) {
            own_certificate = certificate(own_file("crt"));
            SECItem der = own_file("der");
            check(PK11_ImportDERPrivateKeyInfoAndReturnKey(slot, &der, NULL, NULL, PR_FALSE, PR_TRUE, KU_ALL,
                                                           &own_key, NULL),
                  "PK11_ImportDERPrivateKeyInfoAndReturnKey");
        }
    }
    run();
    return 0;
}
