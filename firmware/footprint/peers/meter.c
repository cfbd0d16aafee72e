/* Measured steps, and the heap that they use. The linker sends each call of `malloc` and its kin to
 * the functions named `__wrap_…` here, which count and call the C library's. */
#include "meter.h"

#include "board.h"

#include <string.h>

/* Each block begins with its length. The size keeps what follows aligned for every type. */
union head {
    size_t length;
    uint64_t alignment;
};

static struct {
    uint32_t bytes, peak;
} heap;

void *__real_malloc(size_t length);
void __real_free(void *block);

void *__wrap_malloc(size_t length)
{
    union head *head = __real_malloc(sizeof *head + length);
    if (head == NULL) {
        return NULL;
    }
    head->length = length;
    heap.bytes += length;
    if (heap.peak < heap.bytes) {
        heap.peak = heap.bytes;
    }
    return head + 1;
}

void __wrap_free(void *block)
{
    if (block != NULL) {
        union head *head = (union head *)block - 1;
        heap.bytes -= head->length;
        __real_free(head);
    }
}

void *__wrap_calloc(size_t count, size_t size)
{
    size_t length;
    if (__builtin_mul_overflow(count, size, &length)) {
        return NULL;
    }
    void *block = __wrap_malloc(length);
    return block == NULL ? NULL : memset(block, 0, length);
}

void *__wrap_realloc(void *block, size_t length)
{
    void *other = __wrap_malloc(length);
    if (other != NULL && block != NULL) {
        size_t before = ((union head *)block - 1)->length;
        memcpy(other, block, before < length ? before : length);
        __wrap_free(block);
    }
    return other;
}

uint32_t meter_heap(void)
{
    return heap.bytes;
}

/* The part of the stack that is painted, in bytes, and the room above it for the painter. */
#define PAINTED (256u << 10)
#define GAP 128u
#define PAINT 0x5aa5c33cu

void meter_begin(uint32_t top)
{
    for (uint32_t at = top - PAINTED; at < top - GAP; at += 4) {
        *(volatile uint32_t *)at = PAINT;
    }
    heap.peak = heap.bytes;
}

static uint32_t stack_depth(uint32_t top)
{
    uint32_t at = top - PAINTED;
    while (at < top - GAP && *(volatile uint32_t *)at == PAINT) {
        at += 4;
    }
    return top - at;
}

void meter_end(const char *name, uint32_t top)
{
    uint32_t depth = stack_depth(top);
    board_print("step ");
    board_print(name);
    board_print(" stack ");
    board_print_number(depth);
    board_print(" heap ");
    board_print_number(heap.bytes);
    board_print(" peak ");
    board_print_number(heap.peak);
    board_print("\n");
}

void meter_value(const char *name, uint32_t value)
{
    board_print("value ");
    board_print(name);
    board_print(" ");
    board_print_number(value);
    board_print("\n");
}
