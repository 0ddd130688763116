//! Which bucket a value belongs to.
//!
//! 1. The exponent's bits give the power of two.
//! 2. The first nine bits of the mantissa choose one of 512 slices of a power of two. A slice is
//!    narrower than any bucket of schema 8, so that at most one bound lies in it: how many bounds are
//!    below the slice, plus one comparison of the mantissa with that bound, is the place of the value
//!    among the bounds.
//! 3. That is the index in schema 8; a shift to the right gives the index in any other.
//!
//! The bounds are 2^(k/256) rounded to the nearest f64; the tests prove it with whole numbers.
//! Prometheus' own tables are up to three units in the last place lower, which is too little for
//! anyone to see; its readers compute the bounds afresh from the schema.

/// The coarsest schema, as a shift of the finest one's indices.
pub(super) const COARSEST_SHIFT: u32 = 12;

const MANTISSA_BITS: u32 = 52;
const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;
const SLICE_BITS: u32 = 9;
const SLICES: usize = 1 << SLICE_BITS;
const IN_SLICE_BITS: u32 = MANTISSA_BITS - SLICE_BITS;
const BIAS: i32 = 1023;
/// Bounds in a power of two.
const PER_POWER: i32 = 256;

/// Bits of the smallest normal number.
pub(super) const SMALLEST_NORMAL: u64 = 1 << MANTISSA_BITS;
/// Bits of +Inf.
pub(super) const INFINITE: u64 = f64::INFINITY.to_bits();
/// All bits but the sign.
pub(super) const MAGNITUDE: u64 = u64::MAX >> 1;

/// For each slice the number of bounds below it, above the mantissa of the bound within it; all ones
/// where there is none, for nothing is greater.
static SLICE: [u64; SLICES] = slices();

const fn slices() -> [u64; SLICES] {
    let mut slices = [0; SLICES];
    let (mut slice, mut below) = (0, 0);
    while slice < SLICES {
        let end = (slice as u64 + 1) << IN_SLICE_BITS;
        let within = below < BOUNDS.len() && BOUNDS[below] < end;
        let bound = if within { BOUNDS[below] } else { MANTISSA };
        slices[slice] = (below as u64) << MANTISSA_BITS | bound;
        below += within as usize;
        assert!(below == BOUNDS.len() || BOUNDS[below] >= end, "two bounds in a slice");
        slice += 1;
    }
    slices
}

/// The index in schema 8 of any number but zero, infinities and NaN. *Steady*.
#[inline]
#[allow(dead_code, reason = "its bench asks")]
pub(crate) fn index_of(value: f64) -> i32 {
    index(value.to_bits() & MAGNITUDE)
}

/// The index in schema 8 of a normal number, given by its bits without the sign. *Steady*.
#[inline(always)]
pub(super) fn index_of_normal(magnitude: u64) -> i32 {
    place((magnitude >> MANTISSA_BITS) as i32, magnitude)
}

/// The index in schema 8 of any number but zero, infinities and NaN, given by its bits without the
/// sign. *Steady*.
#[inline]
pub(super) fn index(magnitude: u64) -> i32 {
    if magnitude >= SMALLEST_NORMAL {
        return index_of_normal(magnitude);
    }
    // A subnormal number's leading bit moves to where a normal one's is, implied.
    let by = magnitude.leading_zeros() - (u64::BITS - 1 - MANTISSA_BITS);
    place(1 - by as i32, magnitude << by)
}

#[inline(always)]
fn place(exponent: i32, mantissa: u64) -> i32 {
    let slice = SLICE[(mantissa >> IN_SLICE_BITS) as usize % SLICES];
    let above = i32::from(mantissa & MANTISSA > slice & MANTISSA);
    let below = (slice >> MANTISSA_BITS) as i32;
    exponent * PER_POWER + below + above - (BIAS * PER_POWER + 1)
}

/// The index of the lowest bucket that holds anything above a zero bucket, whose bound is given by its
/// bits.
pub(super) fn lowest_above(zero_threshold: u64, shift: u32) -> i32 {
    index(zero_threshold + 1) >> shift
}

/// The bits of the upper bound of a bucket of the coarsest schema, for buckets below the last.
pub(super) fn coarsest_upper_bound(index: i32) -> u64 {
    let exponent = (index + 1) * (1 << (COARSEST_SHIFT - PER_POWER.ilog2()));
    if exponent > -BIAS {
        ((exponent + BIAS) as u64) << MANTISSA_BITS
    } else {
        1 << (exponent + BIAS - 1 + MANTISSA_BITS as i32)
    }
}

/// The mantissa of 2^(k/256).
#[rustfmt::skip]
pub(super) const BOUNDS: [u64; PER_POWER as usize] = [
    0x0000000000000, 0x00b1afa5abcbf, 0x0163da9fb3335, 0x02168143b0281, 0x02c9a3e778061, 0x037d42e11bbcc,
    0x04315e86e7f85, 0x04e5f72f654b1, 0x059b0d3158574, 0x0650a0e3c1f89, 0x0706b29ddf6de, 0x07bd42b72a836,
    0x0874518759bc8, 0x092bdf66607e0, 0x09e3ecac6f383, 0x0a9c79b1f3919, 0x0b5586cf9890f, 0x0c0f145e46c85,
    0x0cc922b7247f7, 0x0d83b23395dec, 0x0e3ec32d3d1a2, 0x0efa55fdfa9c5, 0x0fb66affed31b, 0x1073028d7233e,
    0x11301d0125b51, 0x11edbab5e2ab6, 0x12abdc06c31cc, 0x136a814f204ab, 0x1429aaea92de0, 0x14e95934f312e,
    0x15a98c8a58e51, 0x166a45471c3c2, 0x172b83c7d517b, 0x17ed48695bbc0, 0x18af9388c8dea, 0x1972658375d2f,
    0x1a35beb6fcb75, 0x1af99f8138a1c, 0x1bbe084045cd4, 0x1c82f95281c6b, 0x1d4873168b9aa, 0x1e0e75eb44027,
    0x1ed5022fcd91d, 0x1f9c18438ce4d, 0x2063b88628cd6, 0x212be3578a819, 0x21f49917ddc96, 0x22bdda27912d1,
    0x2387a6e756238, 0x2451ffb82140a, 0x251ce4fb2a63f, 0x25e85711ece75, 0x26b4565e27cdd, 0x2780e341ddf29,
    0x284dfe1f56381, 0x291ba7591bb70, 0x29e9df51fdee1, 0x2ab8a66d10f13, 0x2b87fd0dad990, 0x2c57e39771b2f,
    0x2d285a6e4030b, 0x2df961f641589, 0x2ecafa93e2f56, 0x2f9d24abd886b, 0x306fe0a31b715, 0x31432edeeb2fd,
    0x32170fc4cd831, 0x32eb83ba8ea32, 0x33c08b26416ff, 0x3496266e3fa2d, 0x356c55f929ff1, 0x36431a2de883b,
    0x371a7373aa9cb, 0x37f26231e754a, 0x38cae6d05d866, 0x39a401b7140ef, 0x3a7db34e59ff7, 0x3b57fbfec6cf4,
    0x3c32dc313a8e5, 0x3d0e544ede173, 0x3dea64c123422, 0x3ec70df1c5175, 0x3fa4504ac801c, 0x40822c367a024,
    0x4160a21f72e2a, 0x423fb2709468a, 0x431f5d950a897, 0x43ffa3f84b9d4, 0x44e086061892d, 0x45c2042a7d232,
    0x46a41ed1d0057, 0x4786d668b3237, 0x486a2b5c13cd0, 0x494e1e192aed2, 0x4a32af0d7d3de, 0x4b17dea6db7d7,
    0x4bfdad5362a27, 0x4ce41b817c114, 0x4dcb299fddd0d, 0x4eb2d81d8abff, 0x4f9b2769d2ca7, 0x508417f4531ee,
    0x516daa2cf6642, 0x5257de83f4eef, 0x5342b569d4f82, 0x542e2f4f6ad27, 0x551a4ca5d920f, 0x56070dde910d2,
    0x56f4736b527da, 0x57e27dbe2c4cf, 0x58d12d497c7fd, 0x59c0827ff07cc, 0x5ab07dd485429, 0x5ba11fba87a03,
    0x5c9268a5946b7, 0x5d84590998b93, 0x5e76f15ad2148, 0x5f6a320dceb71, 0x605e1b976dc09, 0x6152ae6cdf6f4,
    0x6247eb03a5585, 0x633dd1d1929fd, 0x6434634ccc320, 0x652b9febc8fb7, 0x6623882552225, 0x671c1c70833f6,
    0x68155d44ca973, 0x690f4b19e9538, 0x6a09e667f3bcd, 0x6b052fa75173e, 0x6c012750bdabf, 0x6cfdcddd47645,
    0x6dfb23c651a2f, 0x6ef9298593ae5, 0x6ff7df9519484, 0x70f7466f42e87, 0x71f75e8ec5f74, 0x72f8286ead08a,
    0x73f9a48a58174, 0x74fbd35d7cbfd, 0x75feb564267c9, 0x77024b1ab6e09, 0x780694fde5d3f, 0x790b938ac1cf6,
    0x7a11473eb0187, 0x7b17b0976cfdb, 0x7c1ed0130c132, 0x7d26a62ff86f0, 0x7e2f336cf4e62, 0x7f3878491c491,
    0x80427543e1a12, 0x814d2add106d9, 0x82589994cce13, 0x8364c1eb941f7, 0x8471a4623c7ad, 0x857f4179f5b21,
    0x868d99b4492ed, 0x879cad931a436, 0x88ac7d98a6699, 0x89bd0a478580f, 0x8ace5422aa0db, 0x8be05bad61778,
    0x8cf3216b5448c, 0x8e06a5e0866d9, 0x8f1ae99157736, 0x902fed0282c8a, 0x9145b0b91ffc6, 0x925c353aa2fe2,
    0x93737b0cdc5e5, 0x948b82b5f98e5, 0x95a44cbc8520f, 0x96bdd9a7670b3, 0x97d829fde4e50, 0x98f33e47a22a2,
    0x9a0f170ca07ba, 0x9b2bb4d53fe0d, 0x9c49182a3f090, 0x9d674194bb8d5, 0x9e86319e32323, 0x9fa5e8d07f29e,
    0xa0c667b5de565, 0xa1e7aed8eb8bb, 0xa309bec4a2d33, 0xa42c980460ad8, 0xa5503b23e255d, 0xa674a8af46052,
    0xa799e1330b358, 0xa8bfe53c12e59, 0xa9e6b5579fdbf, 0xab0e521356eba, 0xac36bbfd3f37a, 0xad5ff3a3c2774,
    0xae89f995ad3ad, 0xafb4ce622f2ff, 0xb0e07298db666, 0xb20ce6c9a8952, 0xb33a2b84f15fb, 0xb468415b749b1,
    0xb59728de5593a, 0xb6c6e29f1c52a, 0xb7f76f2fb5e47, 0xb928cf22749e4, 0xba5b030a1064a, 0xbb8e0b79a6f1f,
    0xbcc1e904bc1d2, 0xbdf69c3f3a207, 0xbf2c25bd71e09, 0xc06286141b33d, 0xc199bdd85529c, 0xc2d1cd9fa652c,
    0xc40ab5fffd07a, 0xc544778fafb22, 0xc67f12e57d14b, 0xc7ba88988c933, 0xc8f6d9406e7b5, 0xca3405751c4db,
    0xcb720dcef9069, 0xccb0f2e6d1675, 0xcdf0b555dc3fa, 0xcf3155b5bab74, 0xd072d4a07897c, 0xd1b532b08c968,
    0xd2f87080d89f2, 0xd43c8eacaa1d6, 0xd5818dcfba487, 0xd6c76e862e6d3, 0xd80e316c98398, 0xd955d71ff6075,
    0xda9e603db3285, 0xdbe7cd63a8315, 0xdd321f301b460, 0xde7d5641c0658, 0xdfc97337b9b5f, 0xe11676b197d17,
    0xe264614f5a129, 0xe3b333b16ee12, 0xe502ee78b3ff6, 0xe653924676d76, 0xe7a51fbc74c83, 0xe8f7977cdb740,
    0xea4afa2a490da, 0xeb9f4867cca6e, 0xecf482d8e67f1, 0xee4aaa2188510, 0xefa1bee615a27, 0xf0f9c1cb6412a,
    0xf252b376bba97, 0xf3ac948dd7274, 0xf50765b6e4540, 0xf6632798844f8, 0xf7bfdad9cbe14, 0xf91d802243c89,
    0xfa7c1819e90d8, 0xfbdba3692d514, 0xfd3c22b8f71f1, 0xfe9d96b2a23d9,
];
