/* Start of a C program on the board mps2-an385, and its input and output by Arm's semihosting. */
#include "board.h"

#include <string.h>
#include <sys/time.h>
#include <time.h>

const char board_identity[9] = "sensor 7";
const uint8_t board_key[32] = {0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a,
                               0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a,
                               0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a};

enum operation { OPEN = 0x01, WRITE = 0x05, READ = 0x06, EXIT = 0x20 };
/* How a file is opened: C's "rb", "w" and "wb". */
enum mode { READING = 1, CONSOLE = 4, CREATING = 5 };

static uint32_t semihosting(enum operation operation, const void *parameters)
{
    register uint32_t result __asm__("r0") = operation;
    register const void *argument __asm__("r1") = parameters;
    __asm__ volatile("bkpt 0xab" : "+r"(result) : "r"(argument) : "memory");
    return result;
}

static board_file opened(const char *name, enum mode mode)
{
    uint32_t parameters[3] = {(uint32_t)name, mode, strlen(name)};
    uint32_t file = semihosting(OPEN, parameters);
    if (file == UINT32_MAX) {
        board_fail("a file is missing");
    }
    return file;
}

board_file board_open(const char *name)
{
    return opened(name, READING);
}

board_file board_create(const char *name)
{
    return opened(name, CREATING);
}

bool board_read(board_file file, void *out, size_t length)
{
    uint32_t parameters[3] = {file, (uint32_t)out, length};
    return semihosting(READ, parameters) == 0;
}

void board_write(board_file file, const void *bytes, size_t length)
{
    uint32_t parameters[3] = {file, (uint32_t)bytes, length};
    semihosting(WRITE, parameters);
}

static board_file console;

void board_print(const char *text)
{
    board_write(console, text, strlen(text));
}

void board_print_number(uint32_t number)
{
    char digits[11] = {0};
    char *first = &digits[10];
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    board_print(first);
}

uint32_t board_random_state = 1;

/* Marsaglia's xorshift generator with 32 bits of state. */
void board_random(uint8_t *out, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        board_random_state ^= board_random_state << 13;
        board_random_state ^= board_random_state >> 17;
        board_random_state ^= board_random_state << 5;
        out[i] = (uint8_t)board_random_state;
    }
}

uint32_t board_milliseconds(void)
{
    return 0;
}

int gettimeofday(struct timeval *now, void *zone)
{
    (void)zone;
    uint32_t milliseconds = board_milliseconds();
    now->tv_sec = milliseconds / 1000;
    now->tv_usec = milliseconds % 1000 * 1000;
    return 0;
}

time_t time(time_t *now)
{
    time_t seconds = board_milliseconds() / 1000;
    if (now != NULL) {
        *now = seconds;
    }
    return seconds;
}

/* What the C library asks of a system. */
extern char end;

void *_sbrk(ptrdiff_t more)
{
    static char *top = &end;
    char *before = top;
    top += more;
    return before;
}

__attribute__((noreturn)) void _exit(int code)
{
    uint32_t parameters[2] = {0x20026, (uint32_t)code};
    for (;;) {
        semihosting(EXIT, parameters);
    }
}

void board_fail(const char *why)
{
    board_print(why);
    board_print("\n");
    _exit(1);
}

extern uint32_t data_start, data_end, data_load, bss_start, bss_end, stack_top;
int main(void);

__attribute__((noreturn)) void reset(void)
{
    memcpy(&data_start, &data_load, (size_t)((char *)&data_end - (char *)&data_start));
    memset(&bss_start, 0, (size_t)((char *)&bss_end - (char *)&bss_start));
    console = opened(":tt", CONSOLE);
    _exit(main());
}

static void fault(void)
{
    _exit(3);
}

typedef void (*handler)(void);
__attribute__((section(".vectors"), used)) static const handler vectors[16] = {
    (handler)&stack_top, reset, fault, fault, fault, fault, fault, fault,
    fault,               fault, fault, fault, fault, fault, fault, fault,
};
