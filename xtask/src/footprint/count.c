/* A plugin for QEMU that counts the instructions between two marks. A mark is the Thumb hint
 * `yield`, which the measured images use for nothing else. Each second mark appends one line to the
 * file that the argument `out=PATH` names: the instructions since the mark before it.
 *
 * The functions and types below are those of QEMU's plugin interface, version 1, as its manual
 * describes them; Debian's QEMU comes without a header. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct translated_block;
struct translated_instruction;

enum { NO_REGISTERS = 0 };
enum { ADD_U64 = 0 };

typedef void (*on_translation)(plugin_id, struct translated_block *);
typedef void (*on_execution)(unsigned processor, void *data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, on_translation);
extern size_t qemu_plugin_tb_n_insns(const struct translated_block *);
extern struct translated_instruction *qemu_plugin_tb_get_insn(const struct translated_block *,
                                                              size_t);
extern const void *qemu_plugin_insn_data(const struct translated_instruction *);
extern size_t qemu_plugin_insn_size(const struct translated_instruction *);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct translated_instruction *, int,
                                                       void *, uint64_t);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct translated_instruction *, on_execution,
                                                   int, void *);

EXPORT int qemu_plugin_version = 1;

static uint64_t executed;
static uint64_t at_mark;
static bool between;
static FILE *out;

static void marked(unsigned processor, void *data)
{
    (void)processor;
    (void)data;
    if (between) {
        fprintf(out, "%" PRIu64 "\n", executed - at_mark);
        fflush(out);
    }
    between = !between;
    at_mark = executed;
}

static bool is_mark(const struct translated_instruction *instruction)
{
    static const uint8_t yield[2] = {0x10, 0xbf};
    return qemu_plugin_insn_size(instruction) == sizeof yield &&
           memcmp(qemu_plugin_insn_data(instruction), yield, sizeof yield) == 0;
}

static void translated(plugin_id id, struct translated_block *block)
{
    (void)id;
    size_t instructions = qemu_plugin_tb_n_insns(block);
    for (size_t i = 0; i < instructions; i++) {
        struct translated_instruction *instruction = qemu_plugin_tb_get_insn(block, i);
        if (is_mark(instruction)) {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, marked, NO_REGISTERS, NULL);
        } else {
            qemu_plugin_register_vcpu_insn_exec_inline(instruction, ADD_U64, &executed, 1);
        }
    }
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int arguments, char **argument)
{
    (void)info;
    for (int i = 0; i < arguments; i++) {
        if (strncmp(argument[i], "out=", 4) == 0) {
            out = fopen(argument[i] + 4, "w");
        }
    }
    if (out == NULL) {
        fprintf(stderr, "the counter needs out=PATH\n");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
