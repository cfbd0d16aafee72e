/* What every C image has: start, datagrams, randomness, and the C library's heap. */
#include "board.h"

#include <stdlib.h>

int main(void)
{
    uint8_t *datagram = malloc(1500);
    if (datagram == NULL) {
        return 1;
    }
    board_random(datagram, 16);
    size_t length = board_receive(datagram, 1500);
    board_transmit(datagram, length);
    free(datagram);
    return length == 0;
}
