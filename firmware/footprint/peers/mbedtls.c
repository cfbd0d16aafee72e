/* A client of Mbed TLS: DTLS 1.2, pre-shared key, AES_128_CCM_8. */
#include "board.h"

#include <mbedtls/ssl.h>
#include <string.h>

struct timer {
    uint32_t intermediate, final;
};

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
    (void)data;
    board_transmit(datagram, length);
    return (int)length;
}

static int receive(void *data, unsigned char *datagram, size_t room)
{
    size_t length = board_receive(datagram, room);
    *(int *)data = length == 0;
    return length == 0 ? MBEDTLS_ERR_SSL_WANT_READ : (int)length;
}

int main(void)
{
    static const int suites[] = {MBEDTLS_TLS_PSK_WITH_AES_128_CCM_8, 0};
    static mbedtls_ssl_context ssl;
    static mbedtls_ssl_config settings;
    static struct timer timer;
    uint8_t payload[64];
    int ended = 0;
    mbedtls_ssl_init(&ssl);
    mbedtls_ssl_config_init(&settings);
    if (mbedtls_ssl_config_defaults(&settings, MBEDTLS_SSL_IS_CLIENT,
                                    MBEDTLS_SSL_TRANSPORT_DATAGRAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        return 1;
    }
    mbedtls_ssl_conf_rng(&settings, random_bytes, NULL);
    mbedtls_ssl_conf_ciphersuites(&settings, suites);
    if (mbedtls_ssl_conf_psk(&settings, board_key, sizeof board_key,
                             (const unsigned char *)board_identity,
                             sizeof board_identity - 1) != 0 ||
        mbedtls_ssl_setup(&ssl, &settings) != 0) {
        return 1;
    }
    mbedtls_ssl_set_timer_cb(&ssl, &timer, set_timer, get_timer);
    mbedtls_ssl_set_bio(&ssl, &ended, transmit, receive, NULL);
    while (mbedtls_ssl_handshake(&ssl) != 0) {
        if (ended) {
            return 1;
        }
    }
    while (!ended) {
        int length = mbedtls_ssl_read(&ssl, payload, sizeof payload);
        if (length > 0) {
            mbedtls_ssl_write(&ssl, payload, (size_t)length);
        }
    }
    mbedtls_ssl_free(&ssl);
    mbedtls_ssl_config_free(&settings);
    return 0;
}
