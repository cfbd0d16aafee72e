/* What the clients of other implementations get from the board: the datagrams and the randomness of
 * an association, which the compiler cannot know. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

/* The pre-shared key and its identity. */
extern const char board_identity[9];
extern const uint8_t board_key[32];

/* The next datagram; returns its length, or 0 at the end. */
size_t board_receive(uint8_t *datagram, size_t room);
/* Takes a datagram of the client. */
void board_transmit(const uint8_t *datagram, size_t length);
/* Random bytes. */
void board_random(uint8_t *out, size_t length);
/* Milliseconds since the start. */
uint32_t board_milliseconds(void);

#endif
