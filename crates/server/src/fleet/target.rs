//! Which target has which address.
//!
//! Target `n` is at 127.A.B.C with C from 1 to 250 and A from 1 on: addresses that end in 0 or 255 confuse
//! readers, and 127.0.0.0/16 is left to the machine's own business.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const SPAN: usize = 250;

/// The address of a target.
pub(super) fn address(number: usize) -> Ipv4Addr {
    let (above, last) = (number / SPAN, number % SPAN);
    let (first, second) = (above / SPAN, above % SPAN);
    Ipv4Addr::new(127, (first + 1) as u8, second as u8, (last + 1) as u8)
}

/// The target with this address, if it is one of `count`.
pub(super) fn number(address: SocketAddr, count: usize) -> Option<usize> {
    let address = match address.ip() {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => address.to_ipv4_mapped()?,
    };
    let [127, first, second, last] = address.octets() else { return None };
    let part = |octet: u8| usize::from(octet);
    let (first, last) = (part(first).checked_sub(1)?, part(last).checked_sub(1)?);
    if part(second) >= SPAN || last >= SPAN {
        return None;
    }
    let number = (first * SPAN + part(second)) * SPAN + last;
    (number < count).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_numbers() {
        for (target, text) in [
            (0, "127.1.0.1"),
            (249, "127.1.0.250"),
            (250, "127.1.1.1"),
            (9_999, "127.1.39.250"),
            (62_500, "127.2.0.1"),
            (999_999, "127.16.249.250"),
        ] {
            assert_eq!(address(target).to_string(), text);
            let at = SocketAddr::new(IpAddr::V4(address(target)), 9200);
            assert_eq!(number(at, 1_000_000), Some(target));
            assert_eq!(number(at, target), None);
            let mapped = SocketAddr::new(IpAddr::V6(address(target).to_ipv6_mapped()), 1);
            assert_eq!(number(mapped, 1_000_000), Some(target));
        }
        for text in ["127.0.0.1:1", "127.1.0.0:1", "127.1.0.251:1", "10.1.0.1:1", "[::1]:1"] {
            assert_eq!(number(text.parse().unwrap(), 1_000_000), None, "{text}");
        }
    }
}
