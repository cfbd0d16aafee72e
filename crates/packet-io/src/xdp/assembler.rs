//! A small assembler: eBPF instructions by name (RFC 9669), with labels.

use crate::kernel::bpf::Instruction;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A register. `R0` holds results. `R1` to `R5` hold arguments and are overwritten by calls, `R6`
/// to `R9` are preserved. `R10` is the end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R10 = 10,
}

/// The width of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
}

/// The condition of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Equal = 0x10,
    Greater = 0x20,
    NotEqual = 0x50,
}

/// A target of jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Kernel functions that programs may call (linux/bpf.h).
pub(super) mod function {
    pub(in crate::xdp) const MAP_LOOKUP: i32 = 1;
    pub(in crate::xdp) const REDIRECT_MAP: i32 = 51;
}

/// Classes and operations (RFC 9669, sections 4 and 5).
mod code {
    pub(super) const LOAD_IMMEDIATE_64: u8 = 0x18;
    pub(super) const LOAD: u8 = 0x61;
    pub(super) const STORE_IMMEDIATE_WORD: u8 = 0x62;
    pub(super) const ATOMIC_64: u8 = 0xdb;
    pub(super) const ADD_IMMEDIATE: u8 = 0x07;
    pub(super) const MOVE: u8 = 0xbf;
    pub(super) const MOVE_IMMEDIATE: u8 = 0xb7;
    pub(super) const AND_IMMEDIATE: u8 = 0x57;
    pub(super) const JUMP: u8 = 0x05;
    /// Compares 64 bits with a register.
    pub(super) const JUMP_REGISTER: u8 = 0x0d;
    /// Compares 32 bits with an immediate value.
    pub(super) const JUMP_IMMEDIATE_32: u8 = 0x06;
    /// Compares 64 bits with an immediate value.
    pub(super) const JUMP_IMMEDIATE: u8 = 0x05;
    pub(super) const CALL: u8 = 0x85;
    pub(super) const EXIT: u8 = 0x95;
    /// The immediate value is a descriptor of a map.
    pub(super) const SOURCE_IS_MAP: u8 = 1;
}

/// A program under construction.
#[derive(Default)]
pub(super) struct Assembler {
    program: Vec<Instruction>,
    /// The position of each label, once it is placed.
    labels: Vec<Option<usize>>,
    /// Jumps whose offset to their label is filled in at the end.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn put(&mut self, code: u8, destination: u8, source: u8, offset: i16, immediate: i32) {
        let registers = destination | source << 4;
        self.program.push(Instruction { code, registers, offset, immediate });
    }

    /// A new label, to be placed later.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Whether a jump leads to the label. The kernel refuses code that cannot be reached.
    pub(super) fn is_used(&self, label: Label) -> bool {
        self.jumps.iter().any(|&(_, to)| to == label)
    }

    /// Places the label before the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.program.len());
    }

    /// `to = *(from + offset)`.
    pub(super) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.put(code::LOAD | width as u8, to as u8, from as u8, offset, 0);
    }

    /// `*(u32 *)(to + offset) = value`.
    pub(super) fn store_word(&mut self, to: Register, offset: i16, value: i32) {
        self.put(code::STORE_IMMEDIATE_WORD, to as u8, 0, offset, value);
    }

    /// `*(u64 *)to += by`, atomically for all processors.
    pub(super) fn add_atomically(&mut self, to: Register, by: Register) {
        self.put(code::ATOMIC_64, to as u8, by as u8, 0, 0);
    }

    pub(super) fn copy(&mut self, to: Register, from: Register) {
        self.put(code::MOVE, to as u8, from as u8, 0, 0);
    }

    pub(super) fn set(&mut self, to: Register, value: i32) {
        self.put(code::MOVE_IMMEDIATE, to as u8, 0, 0, value);
    }

    pub(super) fn add(&mut self, to: Register, value: i32) {
        self.put(code::ADD_IMMEDIATE, to as u8, 0, 0, value);
    }

    pub(super) fn and(&mut self, to: Register, value: i32) {
        self.put(code::AND_IMMEDIATE, to as u8, 0, 0, value);
    }

    /// `to = ` the map, as an argument of functions that take one.
    pub(super) fn set_map(&mut self, to: Register, map: BorrowedFd<'_>) {
        self.put(code::LOAD_IMMEDIATE_64, to as u8, code::SOURCE_IS_MAP, 0, map.as_raw_fd());
        self.put(0, 0, 0, 0, 0);
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.program.len(), label));
        self.put(code::JUMP, 0, 0, 0, 0);
    }

    /// Jumps if the comparison of the registers, as 64 bits without sign, is true.
    pub(super) fn jump_if(&mut self, left: Register, is: Condition, right: Register, label: Label) {
        self.jumps.push((self.program.len(), label));
        self.put(code::JUMP_REGISTER | is as u8, left as u8, right as u8, 0, 0);
    }

    /// Jumps if the comparison of the register's lower half, without sign, is true.
    pub(super) fn jump_if_word(&mut self, left: Register, is: Condition, right: u32, label: Label) {
        self.jumps.push((self.program.len(), label));
        self.put(code::JUMP_IMMEDIATE_32 | is as u8, left as u8, 0, 0, right as i32);
    }

    /// Jumps if a pointer that a function returned is null.
    pub(super) fn jump_if_null(&mut self, pointer: Register, label: Label) {
        self.jumps.push((self.program.len(), label));
        self.put(code::JUMP_IMMEDIATE | Condition::Equal as u8, pointer as u8, 0, 0, 0);
    }

    pub(super) fn call(&mut self, function: i32) {
        self.put(code::CALL, 0, 0, 0, function);
    }

    pub(super) fn exit(&mut self) {
        self.put(code::EXIT, 0, 0, 0, 0);
    }

    /// The finished program, with the offsets of all jumps.
    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0].expect("every label is placed");
            self.program[from].offset =
                i16::try_from(to - from - 1).expect("jumps go forward, in short programs");
        }
        self.program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_as_the_standard_writes_them() {
        let mut text = Assembler::default();
        let end = text.label();
        text.load(Width::Half, Register::R5, Register::R2, 12);
        text.jump_if_word(Register::R5, Condition::NotEqual, 0xE588, end);
        text.set(Register::R0, 1);
        text.place(end);
        text.exit();
        let bytes: Vec<_> =
            text.finish().iter().map(|i| (i.code, i.registers, i.offset, i.immediate)).collect();
        assert_eq!(
            bytes,
            [(0x69, 0x25, 12, 0), (0x56, 0x05, 1, 0xE588), (0xb7, 0, 0, 1), (0x95, 0, 0, 0)]
        );
    }
}
