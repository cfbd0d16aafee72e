/* Measured steps, which print the lines that the images in Rust print (`src/meter.rs`): one line
 * `step NAME stack S heap H peak P`. The instructions of a step are counted by the emulator between
 * two marks. A program whose flash is measured has no instruments (PEER_BARE). */
#ifndef METER_H
#define METER_H

#include <stdint.h>

#ifdef PEER_BARE

#define MEASURED(name, call) call
#define meter_value(name, value) ((void)(value))
static inline uint32_t meter_heap(void)
{
    return 0;
}

#else

/* Marks this place for the counter of instructions. */
static inline __attribute__((always_inline)) void meter_mark(void)
{
    __asm__ volatile("yield" ::: "memory");
}

static inline __attribute__((always_inline)) uint32_t meter_stack_pointer(void)
{
    uint32_t sp;
    __asm__ volatile("mov %0, sp" : "=r"(sp));
    return sp;
}

/* Paint the stack below `top`, and start the peak of the heap anew. */
void meter_begin(uint32_t top);
/* Prints the step that ended. */
void meter_end(const char *name, uint32_t top);

/* Runs a call as a measured step. */
#define MEASURED(name, call)                       \
    do {                                           \
        uint32_t measured_top = meter_stack_pointer(); \
        meter_begin(measured_top);                 \
        meter_mark();                              \
        call;                                      \
        meter_mark();                              \
        meter_end(name, measured_top);             \
    } while (0)

/* Prints a named value. */
void meter_value(const char *name, uint32_t value);
/* The bytes of heap that are allocated now, as they were asked for. */
uint32_t meter_heap(void);

#endif

#endif
