/* tinydtls: DTLS 1.2, pre-shared key, AES_128_CCM_8. Its sources have no switch that leaves the
 * server out. */
#include "board.h"
#include "peer.h"

#include <dtls.h>
#include <dtls_debug.h>
#include <dtls_prng.h>
#include <string.h>

#ifdef PEER_SERVER
#define ENDS 2
#else
#define ENDS 1
#endif

/* A context's data for the program is its end. */
static struct {
    enum end end;
    dtls_context_t *context;
    session_t session;
    bool is_connected;
    size_t received;
} ends[ENDS];

static int send_datagram(struct dtls_context_t *context, session_t *session, uint8 *data,
                         size_t length)
{
    const enum end *end = dtls_get_app_data(context);
    (void)session;
    link_transmit(*end, data, length);
    return (int)length;
}

static int take_payload(struct dtls_context_t *context, session_t *session, uint8 *data,
                        size_t length)
{
    const enum end *end = dtls_get_app_data(context);
    (void)session;
    (void)data;
    ends[*end].received += length;
    return 0;
}

static int happened(struct dtls_context_t *context, session_t *session, dtls_alert_level_t level,
                    unsigned short code)
{
    const enum end *end = dtls_get_app_data(context);
    (void)session;
    (void)level;
    if (code == DTLS_EVENT_CONNECTED) {
        ends[*end].is_connected = true;
    }
    return 0;
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

void peer_configure(enum end end)
{
    static dtls_handler_t handler = {
        .write = send_datagram,
        .read = take_payload,
        .event = happened,
        .get_psk_info = credentials,
    };
    dtls_init();
    ends[end].end = end;
    ends[end].context = dtls_new_context(&ends[end].end);
    if (ends[end].context == NULL) {
        board_fail("no context");
    }
    dtls_set_handler(ends[end].context, &handler);
}

void peer_start(enum end end)
{
    dtls_session_init(&ends[end].session);
    ends[end].session.addr.sin.sin_family = AF_INET;
    ends[end].session.size = sizeof ends[end].session.addr.sin;
    if (end == CLIENT && dtls_connect(ends[end].context, &ends[end].session) < 0) {
        board_fail("no ClientHello was sent");
    }
}

void peer_turn(enum end end, uint8_t *datagram, size_t length)
{
    if (datagram != NULL) {
        dtls_handle_message(ends[end].context, &ends[end].session, datagram, (int)length);
    }
    dtls_check_retransmit(ends[end].context, NULL);
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
    if (dtls_write(ends[end].context, &ends[end].session, payload, PAYLOAD) < 0) {
        board_fail("a payload was not sent");
    }
}
