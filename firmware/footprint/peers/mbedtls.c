/* Mbed TLS: DTLS 1.2, pre-shared key, AES_128_CCM_8. */
#include "board.h"
#include "inbox.h"
#include "peer.h"

#include <mbedtls/ssl.h>
#include <stdlib.h>
#include <string.h>

#ifdef PEER_SERVER
#define ENDS 2
#else
#define ENDS 1
#endif

struct timer {
    uint32_t intermediate, final;
};

/* An association. */
struct session {
    mbedtls_ssl_context ssl;
    struct timer timer;
};

static struct {
    mbedtls_ssl_config settings;
    struct session *session;
    struct inbox inbox;
    bool is_connected;
    size_t received;
} ends[ENDS];

static void set_timer(void *data, uint32_t intermediate, uint32_t final)
{
    struct timer *timer = data;
    uint32_t now = board_milliseconds();
    timer->intermediate = now + intermediate;
    timer->final = final == 0 ? 0 : now + final;
}

static int get_timer(void *data)
{
    const struct timer *timer = data;
    uint32_t now = board_milliseconds();
    if (timer->final == 0) {
        return -1;
    }
    return now >= timer->final ? 2 : now >= timer->intermediate;
}

static int random_bytes(void *data, unsigned char *out, size_t length)
{
    (void)data;
    board_random(out, length);
    return 0;
}

static int transmit(void *data, const unsigned char *datagram, size_t length)
{
    link_transmit((enum end)(uintptr_t)data, datagram, length);
    return (int)length;
}

static int receive(void *data, unsigned char *datagram, size_t room)
{
    size_t length = inbox_take(&ends[(uintptr_t)data].inbox, datagram, room);
    return length == 0 ? MBEDTLS_ERR_SSL_WANT_READ : (int)length;
}

#ifdef PEER_SERVER
/* The server's cookie is a constant: it costs the client what any other costs. */
static const unsigned char cookie[32] = {0xc0};

static int write_cookie(void *data, unsigned char **at, unsigned char *end,
                        const unsigned char *client, size_t client_length)
{
    (void)data;
    (void)client;
    (void)client_length;
    if ((size_t)(end - *at) < sizeof cookie) {
        return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
    }
    memcpy(*at, cookie, sizeof cookie);
    *at += sizeof cookie;
    return 0;
}

static int check_cookie(void *data, const unsigned char *bytes, size_t length,
                        const unsigned char *client, size_t client_length)
{
    (void)data;
    (void)client;
    (void)client_length;
    return length != sizeof cookie || memcmp(bytes, cookie, length) != 0;
}
#endif

void peer_configure(enum end end)
{
    static const int suites[] = {MBEDTLS_TLS_PSK_WITH_AES_128_CCM_8, 0};
    mbedtls_ssl_config *settings = &ends[end].settings;
    mbedtls_ssl_config_init(settings);
    if (mbedtls_ssl_config_defaults(settings,
                                    end == CLIENT ? MBEDTLS_SSL_IS_CLIENT : MBEDTLS_SSL_IS_SERVER,
                                    MBEDTLS_SSL_TRANSPORT_DATAGRAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        board_fail("no settings");
    }
    mbedtls_ssl_conf_rng(settings, random_bytes, NULL);
    mbedtls_ssl_conf_ciphersuites(settings, suites);
    if (mbedtls_ssl_conf_psk(settings, board_key, sizeof board_key,
                             (const unsigned char *)board_identity,
                             sizeof board_identity - 1) != 0) {
        board_fail("no key");
    }
#ifdef PEER_SERVER
    mbedtls_ssl_conf_dtls_cookies(settings, write_cookie, check_cookie, NULL);
#endif
}

void peer_start(enum end end)
{
    struct session *session = calloc(1, sizeof *session);
    ends[end].session = session;
    if (session == NULL) {
        board_fail("no memory");
    }
    mbedtls_ssl_init(&session->ssl);
    if (mbedtls_ssl_setup(&session->ssl, &ends[end].settings) != 0) {
        board_fail("no association");
    }
    mbedtls_ssl_set_timer_cb(&session->ssl, &session->timer, set_timer, get_timer);
    mbedtls_ssl_set_bio(&session->ssl, (void *)end, transmit, receive, NULL);
#ifdef PEER_SERVER
    if (end == SERVER) {
        mbedtls_ssl_set_client_transport_id(&session->ssl, (const unsigned char *)"client", 6);
    }
#endif
}

/* Goes on with the handshake. */
static void shake(enum end end)
{
    mbedtls_ssl_context *ssl = &ends[end].session->ssl;
    int result = mbedtls_ssl_handshake(ssl);
#ifdef PEER_SERVER
    if (result == MBEDTLS_ERR_SSL_HELLO_VERIFY_REQUIRED) {
        mbedtls_ssl_session_reset(ssl);
        mbedtls_ssl_set_client_transport_id(ssl, (const unsigned char *)"client", 6);
        return;
    }
#endif
    if (result != 0 && result != MBEDTLS_ERR_SSL_WANT_READ) {
        board_fail("the handshake failed");
    }
    ends[end].is_connected = result == 0;
}

void peer_turn(enum end end, uint8_t *datagram, size_t length)
{
    uint8_t payload[2 * PAYLOAD];
    ends[end].inbox = (struct inbox){datagram, length};
    if (!ends[end].is_connected) {
        shake(end);
        return;
    }
    int taken = mbedtls_ssl_read(&ends[end].session->ssl, payload, sizeof payload);
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
    if (mbedtls_ssl_write(&ends[end].session->ssl, payload, PAYLOAD) != PAYLOAD) {
        board_fail("a payload was not sent");
    }
}
