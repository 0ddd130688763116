//! uname: what the machine calls itself and its kernel.

use std::io;

use unladen::FamilyWriter;

use super::room::odd;

pub(super) fn collect(out: &mut FamilyWriter<'_, '_>) -> io::Result<()> {
    let uname = rustix::system::uname();
    let mut labels = [("", ""); 6];
    for (label, (name, value)) in labels.iter_mut().zip([
        ("domainname", uname.domainname()),
        ("machine", uname.machine()),
        ("nodename", uname.nodename()),
        ("release", uname.release()),
        ("sysname", uname.sysname()),
        ("version", uname.version()),
    ]) {
        *label = (name, value.to_str().map_err(|_| odd("a name of the machine is not UTF-8"))?);
    }
    out.gauge(
        "node_uname_info",
        "Labeled system information as provided by the uname system call.",
    )
    .sample(&labels, 1.0);
    Ok(())
}
