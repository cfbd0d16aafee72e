/* The board mps2-an385 for C programs: files and output by Arm's semihosting, a clock and random
 * bytes. */
#ifndef BOARD_H
#define BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pre-shared key and its identity. */
extern const char board_identity[9];
extern const uint8_t board_key[32];

/* An open file of the emulator's host. */
typedef uint32_t board_file;

/* Opens a file for reading. */
board_file board_open(const char *name);
/* Makes a file, or empties it. */
board_file board_create(const char *name);
/* Fills `out`; false if the file ends before. */
bool board_read(board_file file, void *out, size_t length);
void board_write(board_file file, const void *bytes, size_t length);
/* Print to standard output. */
void board_print(const char *text);
void board_print_number(uint32_t number);

/* Random bytes. The state of the generator decides them, so that runs repeat. */
void board_random(uint8_t *out, size_t length);
extern uint32_t board_random_state;

/* Milliseconds since the start. The clock stands still: no timer expires. */
uint32_t board_milliseconds(void);

/* Prints why the program cannot go on, and ends it. */
__attribute__((noreturn)) void board_fail(const char *why);

#endif
