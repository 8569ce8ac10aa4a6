//! What is put into the other process: one page of code and data, for x86-64 (System V ABI).
//!
//! The page is readable and executable, never writable by the process itself. It stays mapped, and is used again when
//! the process is attached to again: freeing it could take it from under a call that is still to come.
use std::arch::global_asm;
use std::slice;

/// Of the page.
pub const PAGE: usize = 4096;
/// Where the data begin: addresses of functions, then the script.
const DATA: usize = 0x200;
const TEXT: usize = 0x40;
/// Longest script, its NUL not counted.
pub const LONGEST: usize = PAGE - DATA - TEXT - 1;

// `call`: calls the function in rbx, whose arguments are in place, and stops at a breakpoint.
// `pending`: int (*)(void *data), for Py_AddPendingCall, with the interpreter's lock held: runs the script in a
//   dictionary of its own. If it ends by an exception, which only a signal's handler can have raised, the exception is
//   the program's: -1 hands it on to where the program was.
// `thread`: void (*)(void *data), for PyThread_start_new_thread. Leaves by a jump: nothing returns into the page.
global_asm!(
    r#"
    .pushsection .rodata.contend_inject, "a"
    .balign 16
    .globl contend_inject_begin
    .globl contend_inject_trapped
    .globl contend_inject_pending
    .globl contend_inject_thread
    .globl contend_inject_end
contend_inject_begin:
    call    rbx
    int3
contend_inject_trapped:
    ud2
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
    static contend_inject_trapped: u8;
    static contend_inject_pending: u8;
    static contend_inject_thread: u8;
    static contend_inject_end: u8;
}

/// Where in the page.
#[derive(Clone, Copy)]
pub enum Place {
    /// The instruction after the breakpoint.
    Trapped,
    /// Runs the script in the thread that calls it.
    Pending,
    /// A thread's first function.
    Thread,
    /// What both are given.
    Data,
}

impl Place {
    /// From the begin of the page; the calling code is at 0.
    pub fn offset(self) -> u64 {
        let begin = &raw const contend_inject_begin as usize;
        let at = match self {
            Self::Trapped => &raw const contend_inject_trapped,
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

/// The whole page. The script must be at most [`LONGEST`] bytes, without NUL.
pub fn page(called: &[u64; CALLED.len()], script: &str) -> Vec<u8> {
    let mut page = code().to_vec();
    page.resize(DATA, 0xcc);
    page.extend(called.iter().flat_map(|address| address.to_le_bytes()));
    page.resize(DATA + TEXT, 0);
    page.extend(script.as_bytes());
    page.push(0);
    page
}

const _: () = assert!(CALLED.len() * 8 <= TEXT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits() {
        assert!(code().len() <= DATA, "{}", code().len());
        let page = page(&[1; 6], &"x".repeat(LONGEST));
        assert_eq!((page.len(), page[PAGE - 1], page[PAGE - 2]), (PAGE, 0, b'x'));
        assert_eq!(&page[..2], &[0xff, 0xd3]); // call rbx
        assert_eq!(&page[Place::Trapped.offset() as usize..][..2], &[0x0f, 0x0b]);
    }
}
