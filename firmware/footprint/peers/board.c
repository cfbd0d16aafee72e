/* Start of a C program on the board mps2-an385, and its input and output by Arm's semihosting. */
#include "board.h"

#include <string.h>
#include <sys/time.h>
#include <time.h>

const char board_identity[9] = "sensor 7";
const uint8_t board_key[32] = {0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a,
                               0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a,
                               0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a, 0x2a};

enum operation { OPEN = 0x01, WRITE = 0x05, READ = 0x06, CLOCK = 0x10, EXIT = 0x20 };

static uint32_t semihosting(enum operation operation, const void *parameters)
{
    register uint32_t result __asm__("r0") = operation;
    register const void *argument __asm__("r1") = parameters;
    __asm__ volatile("bkpt 0xab" : "+r"(result) : "r"(argument) : "memory");
    return result;
}

static uint32_t opened(const char *name, uint32_t mode)
{
    uint32_t parameters[3] = {(uint32_t)name, mode, strlen(name)};
    return semihosting(OPEN, parameters);
}

static uint32_t received, sent;

static size_t filled(uint32_t file, uint8_t *out, size_t length)
{
    uint32_t parameters[3] = {file, (uint32_t)out, length};
    return length - semihosting(READ, parameters);
}

size_t board_receive(uint8_t *datagram, size_t room)
{
    uint8_t length[2];
    if (filled(received, length, sizeof length) != sizeof length) {
        return 0;
    }
    size_t bytes = (size_t)length[0] | (size_t)length[1] << 8;
    return bytes <= room ? filled(received, datagram, bytes) : 0;
}

void board_transmit(const uint8_t *datagram, size_t length)
{
    uint32_t parameters[3] = {sent, (uint32_t)datagram, length};
    semihosting(WRITE, parameters);
}

void board_random(uint8_t *out, size_t length)
{
    filled(received, out, length);
}

uint32_t board_milliseconds(void)
{
    return semihosting(CLOCK, NULL) * 10;
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

extern uint32_t data_start, data_end, data_load, bss_start, bss_end, stack_top;
int main(void);

__attribute__((noreturn)) void reset(void)
{
    memcpy(&data_start, &data_load, (size_t)((char *)&data_end - (char *)&data_start));
    memset(&bss_start, 0, (size_t)((char *)&bss_end - (char *)&bss_start));
    received = opened("received", 1);
    sent = opened("sent", 5);
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
