//! Asks for what will be needed soon, so that nobody waits for it then.

/// Has the cache line at which `what` begins brought to the cache, in the background.
#[inline]
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(super) fn prefetch<T>(what: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint to the processor: it reads nothing that the program sees, and can't fail; SSE is
    // part of x86_64.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(what).cast()) }
}

/// Elsewhere one waits.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn prefetch<T>(_: &T) {}
