/* Both ends in one program. Their datagrams become the transcript for the client alone. */
#include "board.h"
#include "peer.h"
#include "transcript.h"

#include <string.h>

static board_file transcript;

/* Datagrams on their way. */
static struct {
    enum end from;
    size_t length;
    uint8_t bytes[LONGEST];
} flying[32];
static unsigned first, last;

/* Each end has a generator of its own, so that the client alone draws what it draws here. */
static uint32_t generators[2] = {CLIENT_SEED, SERVER_SEED};
static enum end acting;

static void act_as(enum end end)
{
    generators[acting] = board_random_state;
    acting = end;
    board_random_state = generators[end];
}

static void push(enum kind kind, const uint8_t *bytes, size_t length)
{
    uint8_t head[3] = {(uint8_t)kind, (uint8_t)length, (uint8_t)(length >> 8)};
    board_write(transcript, head, sizeof head);
    if (length != 0) {
        board_write(transcript, bytes, length);
    }
}

void link_transmit(enum end end, const uint8_t *bytes, size_t length)
{
    unsigned at = last++ % (sizeof flying / sizeof *flying);
    if (length > LONGEST) {
        board_fail("a datagram is too long");
    }
    push(end == CLIENT ? FROM_CLIENT : FROM_SERVER, bytes, length);
    flying[at].from = end;
    flying[at].length = length;
    memcpy(flying[at].bytes, bytes, length);
}

/* Delivers datagrams until none is left. */
static void settle(void)
{
    while (first != last) {
        static uint8_t datagram[LONGEST];
        unsigned at = first++ % (sizeof flying / sizeof *flying);
        size_t length = flying[at].length;
        enum end to = flying[at].from == CLIENT ? SERVER : CLIENT;
        memcpy(datagram, flying[at].bytes, length);
        act_as(to);
        peer_turn(to, datagram, length);
    }
}

static void record(enum end from, enum end to)
{
    uint8_t payload[PAYLOAD] = {0x55};
    size_t before = peer_received(to);
    act_as(from);
    peer_send(from, payload);
    settle();
    if (peer_received(to) != before + PAYLOAD) {
        board_fail("a record was not opened");
    }
}

int main(void)
{
    transcript = board_create(TRANSCRIPT);
    board_random_state = generators[acting];
    for (enum end end = CLIENT; end <= SERVER; end++) {
        act_as(end);
        peer_configure(end);
        peer_start(end);
    }
    act_as(CLIENT);
    peer_turn(CLIENT, NULL, 0);
    settle();
    if (!peer_is_connected(CLIENT) || !peer_is_connected(SERVER)) {
        board_fail("the handshake is not complete");
    }
    for (int count = 0; count < RECORDS; count++) {
        push(ROUND, NULL, 0);
        record(CLIENT, SERVER);
        record(SERVER, CLIENT);
    }
    return 0;
}
