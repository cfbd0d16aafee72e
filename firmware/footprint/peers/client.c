/* A client alone, whose server's datagrams come from a transcript. */
#include "board.h"
#include "meter.h"
#include "peer.h"
#include "transcript.h"

static board_file transcript;
static size_t sent;

void link_transmit(enum end end, const uint8_t *bytes, size_t length)
{
    (void)end;
    (void)bytes;
    sent = length;
}

/* Reads the next entry and returns its kind; 0 at the end. */
static int next(uint8_t datagram[LONGEST], size_t *length)
{
    uint8_t head[3];
    if (!board_read(transcript, head, sizeof head)) {
        return 0;
    }
    *length = (size_t)head[1] | (size_t)head[2] << 8;
    if (*length > LONGEST ||
        (*length != 0 && !board_read(transcript, datagram, *length))) {
        board_fail("the transcript is not well formed");
    }
    return head[0];
}

/* Seals a payload, as at each round of the transcript. */
static void record(void)
{
    uint8_t payload[PAYLOAD] = {0x55};
    if (!peer_is_connected(CLIENT)) {
        board_fail("the handshake is not complete");
    }
    MEASURED("seal", peer_send(CLIENT, payload));
    meter_value("record", sent);
}

int main(void)
{
    uint8_t datagram[LONGEST];
    const char *step = "handshake";
    int kind;
    size_t length;
    transcript = board_open(TRANSCRIPT);
    board_random_state = CLIENT_SEED;
    peer_configure(CLIENT);
    meter_value("configuration", meter_heap());
    MEASURED("handshake", peer_start(CLIENT));
    MEASURED("handshake", peer_turn(CLIENT, NULL, 0));
    while ((kind = next(datagram, &length)) != 0) {
        if (kind == ROUND) {
            step = "open";
            record();
        } else if (kind == FROM_SERVER) {
            MEASURED(step, peer_turn(CLIENT, datagram, length));
        }
    }
    if (peer_received(CLIENT) != RECORDS * PAYLOAD) {
        board_fail("records are missing");
    }
    return 0;
}
