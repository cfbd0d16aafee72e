/* wolfSSL: DTLS 1.2, or 1.3 with PEER_13; pre-shared key, AES_128_CCM_8. */
#include "board.h"
#include "inbox.h"
#include "peer.h"

#include <string.h>
#include <wolfssl/ssl.h>

#ifdef PEER_13
#define CLIENT_METHOD wolfDTLSv1_3_client_method
#define SERVER_METHOD wolfDTLSv1_3_server_method
#define SUITE "TLS13-AES128-CCM-8-SHA256"
#else
#define CLIENT_METHOD wolfDTLSv1_2_client_method
#define SERVER_METHOD wolfDTLSv1_2_server_method
#define SUITE "PSK-AES128-CCM-8"
#endif

#ifdef PEER_SERVER
#define ENDS 2
#else
#define ENDS 1
#endif

static struct {
    WOLFSSL_CTX *context;
    WOLFSSL *ssl;
    struct inbox inbox;
    bool is_connected;
    size_t received;
} ends[ENDS];

static int transmit(WOLFSSL *ssl, char *datagram, int length, void *data)
{
    (void)ssl;
    link_transmit((enum end)(uintptr_t)data, (const uint8_t *)datagram, (size_t)length);
    return length;
}

static int receive(WOLFSSL *ssl, char *datagram, int room, void *data)
{
    (void)ssl;
    size_t length =
        inbox_take(&ends[(uintptr_t)data].inbox, (uint8_t *)datagram, (size_t)room);
    return length == 0 ? WOLFSSL_CBIO_ERR_WANT_READ : (int)length;
}

static unsigned credentials(WOLFSSL *ssl, const char *hint, char *identity, unsigned identity_room,
                            unsigned char *key, unsigned key_room)
{
    (void)ssl;
    (void)hint;
    if (identity_room < sizeof board_identity || key_room < sizeof board_key) {
        return 0;
    }
    memcpy(identity, board_identity, sizeof board_identity);
    memcpy(key, board_key, sizeof board_key);
    return sizeof board_key;
}

static WOLFSSL_METHOD *method(enum end end)
{
#ifdef PEER_SERVER
    if (end == SERVER) {
        return SERVER_METHOD();
    }
#endif
    (void)end;
    return CLIENT_METHOD();
}

#ifdef PEER_SERVER
static unsigned key_of(WOLFSSL *ssl, const char *identity, unsigned char *key, unsigned key_room)
{
    (void)ssl;
    if (strcmp(identity, board_identity) != 0 || key_room < sizeof board_key) {
        return 0;
    }
    memcpy(key, board_key, sizeof board_key);
    return sizeof board_key;
}
#endif

void peer_configure(enum end end)
{
    wolfSSL_Init();
    WOLFSSL_CTX *context = wolfSSL_CTX_new(method(end));
    if (context == NULL || wolfSSL_CTX_set_cipher_list(context, SUITE) != WOLFSSL_SUCCESS) {
        board_fail("no context");
    }
    wolfSSL_CTX_set_psk_client_callback(context, credentials);
#ifdef PEER_SERVER
    wolfSSL_CTX_set_psk_server_callback(context, key_of);
#endif
    wolfSSL_CTX_SetIOSend(context, transmit);
    wolfSSL_CTX_SetIORecv(context, receive);
    ends[end].context = context;
}

void peer_start(enum end end)
{
    WOLFSSL *ssl = wolfSSL_new(ends[end].context);
    if (ssl == NULL) {
        board_fail("no association");
    }
    wolfSSL_SetIOWriteCtx(ssl, (void *)end);
    wolfSSL_SetIOReadCtx(ssl, (void *)end);
    wolfSSL_dtls_set_using_nonblock(ssl, 1);
#if defined PEER_SERVER && defined PEER_13
    if (end == SERVER && wolfSSL_send_hrr_cookie(ssl, NULL, 0) != WOLFSSL_SUCCESS) {
        board_fail("no cookies");
    }
#endif
    ends[end].ssl = ssl;
}

/* Goes on with the handshake. */
static int shake(enum end end)
{
#ifdef PEER_SERVER
    if (end == SERVER) {
        return wolfSSL_accept(ends[end].ssl);
    }
#endif
    return wolfSSL_connect(ends[end].ssl);
}

void peer_turn(enum end end, uint8_t *datagram, size_t length)
{
    uint8_t payload[2 * PAYLOAD];
    WOLFSSL *ssl = ends[end].ssl;
    ends[end].inbox = (struct inbox){datagram, length};
    if (!ends[end].is_connected) {
        int result = shake(end);
        ends[end].is_connected = result == WOLFSSL_SUCCESS;
        if (!ends[end].is_connected && wolfSSL_get_error(ssl, result) != WOLFSSL_ERROR_WANT_READ) {
            board_fail("the handshake failed");
        }
        return;
    }
    int taken = wolfSSL_read(ssl, payload, sizeof payload);
    if (taken > 0) {
        ends[end].received += (size_t)taken;
    }
}

bool peer_is_connected(enum end end)
{
    return ends[end].is_connected;
}

size_t peer_received(enum end end)
{
    return ends[end].received;
}

void peer_send(enum end end, uint8_t payload[PAYLOAD])
{
    if (wolfSSL_write(ends[end].ssl, payload, PAYLOAD) != PAYLOAD) {
        board_fail("a payload was not sent");
    }
}
