/* A client of tinydtls: DTLS 1.2, pre-shared key, AES_128_CCM_8. */
#include "board.h"

#include <dtls.h>
#include <dtls_debug.h>
#include <dtls_prng.h>
#include <string.h>

static int send_datagram(struct dtls_context_t *context, session_t *session, uint8 *data,
                         size_t length)
{
    (void)context;
    (void)session;
    board_transmit(data, length);
    return (int)length;
}

static int take_payload(struct dtls_context_t *context, session_t *session, uint8 *data,
                        size_t length)
{
    return dtls_write(context, session, data, length);
}

static int happened(struct dtls_context_t *context, session_t *session, dtls_alert_level_t level,
                    unsigned short code)
{
    uint8 payload[32] = {0x55};
    (void)level;
    return code == DTLS_EVENT_CONNECTED ? dtls_write(context, session, payload, sizeof payload) : 0;
}

static int credentials(struct dtls_context_t *context, const session_t *session,
                       dtls_credentials_type_t type, const unsigned char *hint, size_t hint_length,
                       unsigned char *out, size_t room)
{
    (void)context;
    (void)session;
    (void)hint;
    (void)hint_length;
    const void *value = type == DTLS_PSK_IDENTITY ? (const void *)board_identity : board_key;
    size_t length = type == DTLS_PSK_IDENTITY ? sizeof board_identity - 1 : sizeof board_key;
    if (type == DTLS_PSK_HINT || length > room) {
        return 0;
    }
    memcpy(out, value, length);
    return (int)length;
}

int dtls_prng(unsigned char *out, size_t length)
{
    board_random(out, length);
    return 1;
}

void dtls_prng_init(unsigned seed)
{
    (void)seed;
}

/* tinydtls logs through these; an image without a console logs nothing. */
void dtls_dsrv_hexdump_log(log_t level, const char *name, const unsigned char *bytes, size_t length,
                           int extend)
{
    (void)level;
    (void)name;
    (void)bytes;
    (void)length;
    (void)extend;
}

void dtls_dsrv_log_addr(log_t level, const char *name, const session_t *address)
{
    (void)level;
    (void)name;
    (void)address;
}

int main(void)
{
    static dtls_handler_t handler = {
        .write = send_datagram,
        .read = take_payload,
        .event = happened,
        .get_psk_info = credentials,
    };
    static uint8_t datagram[1500];
    session_t session;
    dtls_init();
    dtls_context_t *context = dtls_new_context(NULL);
    if (context == NULL) {
        return 1;
    }
    dtls_set_handler(context, &handler);
    dtls_session_init(&session);
    if (dtls_connect(context, &session) < 0) {
        return 1;
    }
    size_t length;
    while ((length = board_receive(datagram, sizeof datagram)) != 0) {
        dtls_handle_message(context, &session, datagram, (int)length);
        dtls_check_retransmit(context, NULL);
    }
    dtls_free_context(context);
    return 0;
}
