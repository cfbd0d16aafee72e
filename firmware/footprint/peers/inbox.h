/* One datagram that waits until an implementation asks for it. */
#ifndef INBOX_H
#define INBOX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct inbox {
    const uint8_t *datagram;
    size_t length;
};

/* Moves the datagram to `out` and returns its length; 0 if none waits or `room` is too small. */
static inline size_t inbox_take(struct inbox *inbox, uint8_t *out, size_t room)
{
    size_t length = inbox->length;
    inbox->length = 0;
    if (length > room) {
        return 0;
    }
    memcpy(out, inbox->datagram, length);
    return length;
}

#endif
