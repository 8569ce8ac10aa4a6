//! A BPF array that the kernel lets us see in place (BPF_F_MMAPABLE).
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};

/// Entries of T, made of integers only, written by BPF programs at any time.
pub struct Shared<T> {
    address: NonNull<T>,
    entries: usize,
    kind: PhantomData<T>,
}

impl<T: Copy> Shared<T> {
    /// Map the array of that descriptor; its values are as large as T, a multiple of 8 bytes.
    pub fn map(array: BorrowedFd<'_>, entries: usize) -> io::Result<Self> {
        // SAFETY: a new mapping, wherever there is room; the kernel refuses one that is larger than the array.
        let address = unsafe {
            libc::mmap(
                null_mut(),
                entries * size_of::<T>(),
                libc::PROT_READ,
                libc::MAP_SHARED,
                array.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mapped at 0"))?;
        Ok(Self { address, entries, kind: PhantomData })
    }

    /// A copy of one entry.
    pub fn get(&self, at: usize) -> T {
        self.front(at)
    }

    /// A copy of what one entry begins with.
    pub fn front<F: Copy>(&self, at: usize) -> F {
        assert!(at < self.entries && size_of::<F>() <= size_of::<T>());
        // SAFETY: inside the mapping, which lives as long as self; volatile, for it may change at any time.
        unsafe { self.address.as_ptr().add(at).cast::<F>().read_volatile() }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: as it was mapped, and nothing borrows from it.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.entries * size_of::<T>()) };
    }
}
