//! What is put into the other process: a few pages of code and data, for x86-64 (System V ABI).
//!
//! The pages are readable and executable, never writable by the process itself. They stay mapped, and are used again
//! when the process is attached to again: freeing them could take them from under a call that is still to come.
//!
//! The code needs nobody to end well. What the thread had in its registers lies in the pages, and the code itself puts
//! it back and jumps to where the thread was. So contend-probe may be killed at any moment.
use std::arch::global_asm;
use std::slice;

use libc::user_regs_struct;

pub const PAGE: usize = 4096;
/// Of all that is mapped executable: code, data and script, then the vector registers.
pub const REGION: usize = 4 * PAGE;
/// Of the stack of the call, a mapping of its own: where the thread stands there may be no room (a signal's handler
/// on a stack of its own). glibc's pthread_create is the deepest that runs on it.
pub const STACK: usize = 64 << 10;
/// Where what is put back begins: see [`Saved`].
const SAVED: usize = 0x200;
/// Bytes that the code and what it puts back need: where the mappings are made from.
pub const LEAST: usize = SAVED + Saved::WORDS * 8;
/// Not 0: what was saved is not needed any more.
pub const IDLE: u64 = LEAST as u64;
/// Where the data begin: addresses of functions, then the script.
const DATA: usize = 0x2a0;
/// After the functions: the stack.
pub const STACK_AT: u64 = (DATA + CALLED.len() * 8) as u64;
const TEXT: usize = 0x40;
/// Where the vector registers are, as XSAVE writes them; as much room as is left.
pub const VECTORS: u64 = PAGE as u64;
/// Longest script, its NUL not counted.
pub const LONGEST: usize = PAGE - DATA - TEXT - 1;

// `call`: calls the function in rbx, whose arguments are in place. Its end, `leave`, lets the signals through again
//   (rt_sigprocmask, in which whoever traces sees that the call has returned, and what, in rbx), then puts everything
//   back: until the last two instructions the stack is one on which a signal's handler may run.
// `map`: from a place that is there already, on the thread's own stack, of which it uses nothing: two calls of mmap(2).
//   The kernel keeps all registers over a system call but rax, rcx and r11; no instruction here changes the flags.
// `pending`: int (*)(void *data), for Py_AddPendingCall, with the interpreter's lock held: runs the script in a
//   dictionary of its own. If it ends by an exception, which only a signal's handler can have raised, the exception is
//   the program's: -1 hands it on to where the program was.
// `thread`: void (*)(void *data), for PyThread_start_new_thread. Leaves by a jump: nothing returns into the page.
global_asm!(
    r#"
    .pushsection .rodata.contend_inject, "a"
    .balign 16
    .globl contend_inject_begin
    .globl contend_inject_left
    .globl contend_inject_map
    .globl contend_inject_pending
    .globl contend_inject_thread
    .globl contend_inject_end
contend_inject_begin:
    call    rbx
    mov     rbx, rax
    mov     eax, 14             /* rt_sigprocmask(SIG_SETMASK, mask, NULL, 8) */
    mov     edi, 2
    lea     rsi, [rip + contend_inject_begin + 0x200]
    mov     edx, 0
    mov     r10d, 8
    syscall
contend_inject_left:
    lea     rdi, [rip + contend_inject_begin + 0x1000]
    mov     eax, -1
    mov     edx, -1
    xrstor64 [rdi]
    push    qword ptr [rip + contend_inject_begin + 0x208]
    popfq
contend_inject_registers:
    mov     rax, [rip + contend_inject_begin + 0x220]
    mov     rbx, [rip + contend_inject_begin + 0x228]
    mov     rcx, [rip + contend_inject_begin + 0x230]
    mov     rdx, [rip + contend_inject_begin + 0x238]
    mov     rsi, [rip + contend_inject_begin + 0x240]
    mov     rdi, [rip + contend_inject_begin + 0x248]
    mov     rbp, [rip + contend_inject_begin + 0x250]
    mov     r8,  [rip + contend_inject_begin + 0x258]
    mov     r9,  [rip + contend_inject_begin + 0x260]
    mov     r10, [rip + contend_inject_begin + 0x268]
    mov     r11, [rip + contend_inject_begin + 0x270]
    mov     r12, [rip + contend_inject_begin + 0x278]
    mov     r13, [rip + contend_inject_begin + 0x280]
    mov     r14, [rip + contend_inject_begin + 0x288]
    mov     r15, [rip + contend_inject_begin + 0x290]
    mov     rsp, [rip + contend_inject_begin + 0x218]
    jmp     qword ptr [rip + contend_inject_begin + 0x210]
contend_inject_map:
    syscall                     /* mmap(NULL, REGION, PROT_READ | PROT_EXEC, …) */
    mov     eax, 9
    mov     esi, 0x10000        /* mmap(NULL, STACK, PROT_READ | PROT_WRITE, …) */
    mov     edx, 3
    syscall
    mov     eax, 14
    mov     edi, 2
    lea     rsi, [rip + contend_inject_begin + 0x200]
    mov     edx, 0
    mov     r10d, 8
    syscall
    jmp     contend_inject_registers
    .balign 16
contend_inject_pending:
    push    rbx
    push    r12
    push    r13
    mov     rbx, rdi
    xor     r13d, r13d
    call    [rbx]               /* PyDict_New() */
    mov     r12, rax
    test    rax, rax
    jz      3f
    lea     rdi, [rbx + 0x40]
    mov     esi, 257            /* Py_file_input */
    mov     rdx, r12
    mov     rcx, r12
    call    [rbx + 8]           /* PyRun_String(script, start, globals, locals) */
    mov     r13, rax
    test    rax, rax
    jz      2f
    mov     rdi, rax
    call    [rbx + 16]          /* Py_DecRef(result) */
2:  mov     rdi, r12
    call    [rbx + 16]          /* Py_DecRef(globals) */
3:  xor     eax, eax
    test    r13, r13
    jnz     4f
    dec     eax
4:  pop     r13
    pop     r12
    pop     rbx
    ret
    .balign 16
contend_inject_thread:
    push    rbx
    push    r12
    push    r13
    mov     rbx, rdi
    call    [rbx + 24]          /* PyGILState_Ensure() */
    mov     r12d, eax
    mov     rdi, rbx
    call    contend_inject_pending
    test    eax, eax
    jz      5f
    call    [rbx + 32]          /* PyErr_Clear() */
5:  mov     edi, r12d
    mov     rax, [rbx + 40]     /* PyGILState_Release(state) */
    pop     r13
    pop     r12
    pop     rbx
    jmp     rax
contend_inject_end:
    .popsection
    "#
);

unsafe extern "C" {
    static contend_inject_begin: u8;
    static contend_inject_left: u8;
    static contend_inject_map: u8;
    static contend_inject_pending: u8;
    static contend_inject_thread: u8;
    static contend_inject_end: u8;
}

/// Where in the page.
#[derive(Clone, Copy)]
pub enum Place {
    /// Calls a function, then puts back what was saved.
    Call,
    /// After the system call that tells that the function has returned.
    Left,
    /// Makes the mappings, then puts back what was saved.
    Map,
    /// Runs the script in the thread that calls it.
    Pending,
    /// A thread's first function.
    Thread,
    /// What both are given.
    Data,
}

impl Place {
    /// From the begin of the code.
    pub fn offset(self) -> u64 {
        let begin = &raw const contend_inject_begin as usize;
        let at = match self {
            Self::Call => return 0,
            Self::Left => &raw const contend_inject_left,
            Self::Map => &raw const contend_inject_map,
            Self::Pending => &raw const contend_inject_pending,
            Self::Thread => &raw const contend_inject_thread,
            Self::Data => return DATA as u64,
        };
        (at as usize - begin) as u64
    }
}

/// The code alone: how a page of ours is known again.
pub fn code() -> &'static [u8] {
    let begin = &raw const contend_inject_begin;
    // SAFETY: the bytes between two labels of one section, assembled above.
    unsafe { slice::from_raw_parts(begin, (&raw const contend_inject_end).offset_from(begin) as usize) }
}

/// Functions of the interpreter that the code calls, in their order.
pub const CALLED: [&str; 6] =
    ["PyDict_New", "PyRun_String", "Py_DecRef", "PyGILState_Ensure", "PyErr_Clear", "PyGILState_Release"];

/// What the code puts back: a place for each word.
pub struct Saved {
    /// Which signals are blocked.
    pub mask: u64,
    /// All other registers.
    pub registers: user_regs_struct,
}

impl Saved {
    const WORDS: usize = 19;

    fn words(&self) -> [u64; Self::WORDS] {
        let r = &self.registers;
        [
            self.mask, r.eflags, r.rip, r.rsp, r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9,
            r.r10, r.r11, r.r12, r.r13, r.r14, r.r15,
        ]
    }
}

/// The code with what it puts back, [`LEAST`] bytes.
pub fn to_map(saved: &Saved) -> Vec<u8> {
    let mut bytes = code().to_vec();
    bytes.resize(SAVED, 0xcc);
    bytes.extend(saved.words().iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

/// All pages. The script must be at most [`LONGEST`] bytes, without NUL, the vector registers fit behind it.
pub fn pages(
    saved: &Saved,
    called: &[u64; CALLED.len()],
    stack: u64,
    script: &str,
    vectors: &[u8],
) -> Vec<u8> {
    let mut pages = to_map(saved);
    pages.resize(DATA, 0);
    pages.extend(called.iter().chain([&stack]).flat_map(|address| address.to_le_bytes()));
    pages.resize(DATA + TEXT, 0);
    pages.extend(script.as_bytes());
    pages.resize(PAGE, 0);
    pages.extend(vectors);
    pages
}

const _: () = assert!(CALLED.len() * 8 + 8 <= TEXT && LEAST + 8 <= DATA && STACK == 0x10000);

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Saved {
        // SAFETY: numbers, for which zeros are valid.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        (registers.rip, registers.rsp, registers.r15) = (2, 3, 18);
        Saved { mask: 7, registers }
    }

    #[test]
    fn fits() {
        assert!(code().len() <= SAVED, "{}", code().len());
        let pages = pages(&saved(), &[1; 6], 9, &"x".repeat(LONGEST), &[5; 100]);
        assert_eq!((pages.len(), pages[PAGE - 1], pages[PAGE - 2]), (PAGE + 100, 0, b'x'));
        assert_eq!(&pages[..2], &[0xff, 0xd3]); // call rbx
        for place in [Place::Left, Place::Map] {
            let syscall = place.offset() as usize - if matches!(place, Place::Left) { 2 } else { 0 };
            assert_eq!(&pages[syscall..][..2], &[0x0f, 0x05]);
        }
    }

    #[test]
    fn what_is_put_back_is_where_the_code_looks() {
        let bytes = to_map(&saved());
        assert_eq!(bytes.len(), LEAST);
        let word =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        assert_eq!([0x200, 0x210, 0x218, 0x290].map(word), [7, 2, 3, 18]);
    }
}
