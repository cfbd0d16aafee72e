/* An end of an association, which each implementation's file defines: clients always, servers with
 * PEER_SERVER. Only the file `client.c` or `ends.c` calls the functions `peer_…`. */
#ifndef PEER_H
#define PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum end { CLIENT, SERVER };

/* The length of a record's payload, and of the longest datagram, in bytes. */
#define PAYLOAD 32
#define LONGEST 1500
/* The records that are sealed and opened after a handshake. The second half is reported. */
#define RECORDS 32

/* Makes what an end has once, however many associations it has. */
void peer_configure(enum end end);
/* Begins an association. */
void peer_start(enum end end);
/* Takes a datagram, and does everything that is then to do. Without a datagram, `datagram` is
 * NULL. */
void peer_turn(enum end end, uint8_t *datagram, size_t length);
/* Whether the handshake is complete. */
bool peer_is_connected(enum end end);
/* The bytes of payload received so far. */
size_t peer_received(enum end end);
/* Seals and sends a payload. */
void peer_send(enum end end, uint8_t payload[PAYLOAD]);

/* Takes a datagram that an end sends. */
void link_transmit(enum end end, const uint8_t *datagram, size_t length);

#endif
