//! The addresses and operands that an instruction is about to use.

use iced_x86::{
    Decoder, DecoderOptions, FastFormatter, Instruction, InstructionInfoFactory, Mnemonic, OpKind,
    Register, UsedMemory,
};
use nix::libc::user_regs_struct;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Length of the longest instruction, in bytes.
const LONGEST: usize = 15;

/// An instruction at its address in the program.
pub(super) struct Place {
    instruction: Instruction,
    /// The memory operands, including implicit ones (stack, strings).
    pub(super) memory: Vec<UsedMemory>,
    /// Whether it is a division, whose duration depends on the operands.
    pub(super) divides: bool,
    /// Whether it is a gather or scatter, which uses an address for each lane of a vector.
    pub(super) gathers: bool,
    /// Whether it copies or fills memory, as often as RCX says.
    pub(super) repeats: bool,
}

impl Place {
    /// Decodes the instruction at `address` of the process with `memory`.
    pub(super) fn read(address: u64, memory: &File) -> Self {
        let mut code = [0; LONGEST];
        let length = memory.read_at(&mut code, address).expect("code can be read");
        Self::decode(address, &code[..length])
    }

    pub(super) fn decode(address: u64, code: &[u8]) -> Self {
        let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
        assert!(!instruction.is_invalid(), "unknown instruction {code:02x?}");
        let mnemonic = instruction.mnemonic();
        let mut memory = Vec::new();
        // These two have operands that look like memory but do not access it.
        if !matches!(mnemonic, Mnemonic::Lea | Mnemonic::Nop) {
            memory
                .extend_from_slice(InstructionInfoFactory::new().info(&instruction).used_memory());
        }
        let divides = matches!(mnemonic, Mnemonic::Div | Mnemonic::Idiv);
        // Instructions that compare strings may end early, so they are stepped through.
        let repeats = instruction.has_rep_prefix()
            && matches!(
                mnemonic,
                Mnemonic::Movsb | Mnemonic::Movsq | Mnemonic::Stosb | Mnemonic::Stosq
            );
        Self { instruction, memory, divides, gathers: instruction.is_vsib(), repeats }
    }

    /// The address of the next instruction.
    pub(super) fn next(&self) -> u64 {
        self.instruction.next_ip()
    }

    /// The addresses that the instruction is about to use; `None` for an address that cannot be
    /// computed.
    pub(super) fn addresses<'a>(
        &'a self,
        registers: &'a user_regs_struct,
    ) -> impl Iterator<Item = Option<u64>> + 'a {
        self.memory.iter().map(|used| used.virtual_address(0, |name, _, _| value(registers, name)))
    }

    /// The dividend and the divisor of a division.
    pub(super) fn operands(&self, registers: &user_regs_struct, memory: &File) -> [u64; 3] {
        let divisor = match self.instruction.op0_kind() {
            OpKind::Register => value(registers, self.instruction.op0_register()),
            _ => self.addresses(registers).next().flatten().map(|address| {
                let mut bytes = [0; 8];
                memory.read_exact_at(&mut bytes, address).expect("data can be read");
                u64::from_le_bytes(bytes)
            }),
        };
        [registers.rax, registers.rdx, divisor.expect("a divisor is a register or in memory")]
    }
}

/// The value of the whole register that `name` is a part of.
fn value(registers: &user_regs_struct, name: Register) -> Option<u64> {
    Some(match name.full_register() {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        // In 64-bit mode the other segments begin at 0.
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    })
}

impl fmt::Display for Place {
    /// Writes the instruction and its offset for `addr2line --exe`. The traced processes are forks
    /// of this test program.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        FastFormatter::new().format(&self.instruction, &mut text);
        write!(f, "`{text}`, {:#x} in the test program", self.instruction.ip() - program_start())
    }
}

/// The address at which the test program is loaded.
fn program_start() -> u64 {
    let program = std::env::current_exe().expect("the test program has a name");
    let maps = fs::read_to_string("/proc/self/maps").expect("Linux");
    let first = maps.lines().find(|line| line.ends_with(&*program.to_string_lossy()));
    let start = first.and_then(|line| line.split('-').next());
    start.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0)
}

#[test]
fn memory_that_is_not_named_and_gathers_are_seen() {
    let decode = |code: &[u8]| Place::decode(0x1000, code);
    // push rax; lea rax, [rbx]; movsb; vpgatherdd ymm0, [rax+ymm1*4], ymm2
    assert_eq!(decode(&[0x50]).memory.len(), 1);
    assert_eq!(decode(&[0x48, 0x8d, 0x03]).memory.len(), 0);
    assert_eq!(decode(&[0xa4]).memory.len(), 2);
    assert!(decode(&[0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x88]).gathers);
    // div qword ptr [rax]; rep movsb; repe cmpsb
    assert!(decode(&[0x48, 0xf7, 0x30]).divides);
    assert!(decode(&[0xf3, 0xa4]).repeats);
    assert!(!decode(&[0xf3, 0xa6]).repeats);
}
