/* A client of wolfSSL: DTLS 1.2, or 1.3 with PEER_13; pre-shared key, AES_128_CCM_8. */
#include "board.h"

#include <string.h>
#include <wolfssl/ssl.h>

#ifdef PEER_13
#define METHOD wolfDTLSv1_3_client_method
#define SUITE "TLS13-AES128-CCM-8-SHA256"
#else
#define METHOD wolfDTLSv1_2_client_method
#define SUITE "PSK-AES128-CCM-8"
#endif

static int ended;

static int transmit(WOLFSSL *ssl, char *datagram, int length, void *data)
{
    (void)ssl;
    (void)data;
    board_transmit((const uint8_t *)datagram, (size_t)length);
    return length;
}

static int receive(WOLFSSL *ssl, char *datagram, int room, void *data)
{
    (void)ssl;
    (void)data;
    size_t length = board_receive((uint8_t *)datagram, (size_t)room);
    ended = length == 0;
    return ended ? WOLFSSL_CBIO_ERR_WANT_READ : (int)length;
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

int main(void)
{
    uint8_t payload[64];
    wolfSSL_Init();
    WOLFSSL_CTX *context = wolfSSL_CTX_new(METHOD());
    if (context == NULL || wolfSSL_CTX_set_cipher_list(context, SUITE) != WOLFSSL_SUCCESS) {
        return 1;
    }
    wolfSSL_CTX_set_psk_client_callback(context, credentials);
    wolfSSL_CTX_SetIOSend(context, transmit);
    wolfSSL_CTX_SetIORecv(context, receive);
    WOLFSSL *ssl = wolfSSL_new(context);
    if (ssl == NULL) {
        return 1;
    }
    wolfSSL_dtls_set_using_nonblock(ssl, 1);
    while (wolfSSL_connect(ssl) != WOLFSSL_SUCCESS) {
        if (ended) {
            return 1;
        }
    }
    while (!ended) {
        int length = wolfSSL_read(ssl, payload, sizeof payload);
        if (length > 0) {
            wolfSSL_write(ssl, payload, length);
        }
    }
    wolfSSL_free(ssl);
    wolfSSL_CTX_free(context);
    return 0;
}
