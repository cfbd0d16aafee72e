/* What every C image has: start, files, randomness, meter, and the C library's heap. */
#include "board.h"
#include "meter.h"
#include "peer.h"

#include <stdlib.h>

int main(void)
{
    uint8_t *block = NULL;
    MEASURED("nothing", block = malloc(LONGEST));
    if (block == NULL) {
        return 1;
    }
    board_random(block, LONGEST);
    bool is_zero = block[0] == 0;
    free(block);
    return is_zero;
}
