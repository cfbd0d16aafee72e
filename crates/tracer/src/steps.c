/* A plugin for QEMU's emulation of programs. At the end it writes the number of all executed
 * instructions to the standard error output. With `out=PATH` it also compares: between two marks it
 * hashes the addresses of all instructions, and those of all memory accesses, and appends a line to
 * the file: the number of instructions, their hash, the number of accesses, their hash. A mark is
 * the instruction `isb` of aarch64, to which Rust compiles `core::hint::spin_loop`.
 *
 * The functions and types below are those of QEMU's plugin interface, version 1, as its manual
 * describes them; Debian's QEMU comes without a header. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct translated_block;
struct translated_instruction;

enum { NO_REGISTERS = 0 };
enum { ADD_U64 = 0 };
enum { READS_AND_WRITES = 3 };

typedef void (*on_translation)(plugin_id, struct translated_block *);
typedef void (*on_execution)(unsigned processor, void *data);
typedef void (*on_access)(unsigned processor, uint32_t info, uint64_t address, void *data);
typedef void (*at_end)(plugin_id, void *data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, on_translation);
extern size_t qemu_plugin_tb_n_insns(const struct translated_block *);
extern struct translated_instruction *qemu_plugin_tb_get_insn(const struct translated_block *,
                                                              size_t);
extern const void *qemu_plugin_insn_data(const struct translated_instruction *);
extern size_t qemu_plugin_insn_size(const struct translated_instruction *);
extern uint64_t qemu_plugin_insn_vaddr(const struct translated_instruction *);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct translated_block *, int, void *,
                                                     uint64_t);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct translated_instruction *, on_execution,
                                                   int, void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct translated_instruction *, on_access, int, int,
                                             void *);
extern void qemu_plugin_register_atexit_cb(plugin_id, at_end, void *);

EXPORT int qemu_plugin_version = 1;

/* What has been executed, or accessed, since the last mark. */
struct trace {
    uint64_t count;
    uint64_t hash;
};

static uint64_t executed;
static struct trace path, accesses;
static bool between;
static int out = -1;

static void add(struct trace *trace, uint64_t address)
{
    trace->count++;
    /* The multiplier of FNV-1a, and a rotation, so that high bits reach low ones. */
    trace->hash = (trace->hash ^ address) * 0x100000001b3u;
    trace->hash = trace->hash << 29 | trace->hash >> 35;
}

static void stepped(unsigned processor, void *address)
{
    (void)processor;
    if (between) {
        add(&path, (uintptr_t)address);
    }
}

static void accessed(unsigned processor, uint32_t info, uint64_t address, void *data)
{
    (void)processor;
    (void)data;
    if (between) {
        add(&accesses, address ^ (uint64_t)info << 56);
    }
}

static void marked(unsigned processor, void *data)
{
    (void)processor;
    (void)data;
    if (between) {
        char line[100];
        int length = snprintf(line, sizeof line, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                              path.count, path.hash, accesses.count, accesses.hash);
        if (write(out, line, (size_t)length) != length) {
            perror("the trace");
        }
    }
    between = !between;
    path = accesses = (struct trace){0, 0};
}

static bool is_mark(const struct translated_instruction *instruction)
{
    static const uint8_t isb[4] = {0xdf, 0x3f, 0x03, 0xd5};
    return qemu_plugin_insn_size(instruction) == sizeof isb &&
           memcmp(qemu_plugin_insn_data(instruction), isb, sizeof isb) == 0;
}

static void translated(plugin_id id, struct translated_block *block)
{
    (void)id;
    size_t instructions = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &executed, instructions);
    for (size_t i = 0; out >= 0 && i < instructions; i++) {
        struct translated_instruction *instruction = qemu_plugin_tb_get_insn(block, i);
        if (is_mark(instruction)) {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, marked, NO_REGISTERS, NULL);
        } else {
            void *address = (void *)(uintptr_t)qemu_plugin_insn_vaddr(instruction);
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, stepped, NO_REGISTERS, address);
            qemu_plugin_register_vcpu_mem_cb(instruction, accessed, NO_REGISTERS,
                                             READS_AND_WRITES, NULL);
        }
    }
}

static void ended(plugin_id id, void *data)
{
    (void)id;
    (void)data;
    if (out < 0) {
        fprintf(stderr, "executed %" PRIu64 "\n", executed);
    }
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int arguments, char **argument)
{
    (void)info;
    for (int i = 0; i < arguments; i++) {
        if (strncmp(argument[i], "out=", 4) == 0) {
            out = open(argument[i] + 4, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
            if (out < 0) {
                perror(argument[i] + 4);
                return -1;
            }
        }
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
