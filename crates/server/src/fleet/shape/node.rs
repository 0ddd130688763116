//! A machine, as node_exporter sees it.

use super::{Dimension, Family, Kind, ONCE, Shape, Value, each, family};
use Kind::{Counter, Gauge, Untyped};
use Value::{Idle, Pages, Still, Text};

const MACHINE: usize = 0;
const CPU: usize = 1;
const DISK: usize = 2;
const NIC: usize = 3;
const VETH: usize = 4;
const MOUNT: usize = 5;
const UNIT: usize = 6;

const MODES: &[&str] = &["idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user"];
const STATES: &[&str] = &["activating", "active", "deactivating", "failed", "inactive"];
const NIC_LABELS: &str = "device=\"eth{n}\"";
const VETH_LABELS: &str = "device=\"lxc{port}\"";
const DISK_LABELS: &str = "device=\"nvme{n}n1\"";
const MOUNT_LABELS: &str =
    "device=\"/dev/mapper/vg0-volume{n}\",fstype=\"{fstype}\",mountpoint=\"/srv/{volume}/{n}\"";

pub(super) const SHAPE: Shape = Shape {
    dimensions: &[
        ONCE,
        Dimension { weight: 1.0, churns: false },
        Dimension { weight: 0.25, churns: false },
        Dimension { weight: 0.2, churns: false },
        Dimension { weight: 0.6, churns: true },
        Dimension { weight: 0.5, churns: false },
        Dimension { weight: 1.5, churns: true },
    ],
    lists: &[
        ("fstype", &["ext4", "xfs", "ext4", "btrfs"]),
        ("volume", &["data", "backup", "registry", "postgres", "logs"]),
        ("unit", &["cri-containerd", "run", "session", "user-runtime-dir"]),
    ],
    families: FAMILIES,
    filler: family(
        "node_systemd_unit_tasks_current",
        Gauge,
        "Current number of tasks per Systemd unit",
        UNIT,
        "name=\"run-{hash}{suffix}-{n}.service\"",
        Value::Gauge(2, 0),
    ),
    plain: false,
};

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    family("go_gc_cycles_total_gc_cycles_total", Counter, "Count of all completed GC cycles.", MACHINE, "", Idle(6, 3)),
    family("go_goroutines", Gauge, "Number of goroutines that currently exist.", MACHINE, "", Text("9")),
    family("go_memstats_alloc_bytes", Gauge, "Number of bytes allocated in heap and currently in use.", MACHINE, "", Value::Gauge(7, 0)),
    family("go_memstats_mallocs_total", Counter, "Total number of heap objects allocated, both live and gc-ed.", MACHINE, "", Value::Counter(10, 0, 90_000)),
    family("node_boot_time_seconds", Gauge, "Node boot time, in unixtime.", MACHINE, "", Value::Began(0)),
    family("node_context_switches_total", Counter, "Total number of context switches.", MACHINE, "", Value::Counter(12, 0, 60_000)),
    each("node_cpu_guest_seconds_total", Counter, "Seconds the CPUs spent in guests (VMs) for each mode.", CPU, "cpu=\"{n}\",mode=\"{each}\"", &["nice", "user"], Text("0")),
    each("node_cpu_seconds_total", Counter, "Seconds the CPUs spent in each mode.", CPU, "cpu=\"{n}\",mode=\"{each}\"", MODES, Value::Counter(8, 2, 400)),
    family("node_cpu_scaling_frequency_hertz", Gauge, "Current scaled CPU thread frequency in hertz.", CPU, "cpu=\"{n}\"", Value::Gauge(10, 0)),
    family("node_cpu_scaling_frequency_max_hertz", Gauge, "Maximum scaled CPU thread frequency in hertz.", CPU, "cpu=\"{n}\"", Text("3.9e+09")),
    family("node_cpu_scaling_frequency_min_hertz", Gauge, "Minimum scaled CPU thread frequency in hertz.", CPU, "cpu=\"{n}\"", Text("8e+08")),
    family("node_cpu_core_throttles_total", Counter, "Number of times this CPU core has been throttled.", CPU, "core=\"{n}\",package=\"0\"", Text("0")),
    family("node_softnet_processed_total", Counter, "Number of processed packets", CPU, "cpu=\"{n}\"", Value::Counter(10, 0, 9_000)),
    family("node_softnet_dropped_total", Counter, "Number of dropped packets", CPU, "cpu=\"{n}\"", Text("0")),
    family("node_softnet_times_squeezed_total", Counter, "Number of times processing packets ran out of quota", CPU, "cpu=\"{n}\"", Idle(4, 4)),
    family("node_schedstat_running_seconds_total", Counter, "Number of seconds CPU spent running a process.", CPU, "cpu=\"{n}\"", Value::Counter(15, 9, 2_000_000_000)),
    family("node_schedstat_timeslices_total", Counter, "Number of timeslices executed by CPU.", CPU, "cpu=\"{n}\"", Value::Counter(10, 0, 20_000)),
    family("node_schedstat_waiting_seconds_total", Counter, "Number of seconds spent by processing waiting for this CPU.", CPU, "cpu=\"{n}\"", Value::Counter(14, 9, 200_000_000)),
    family("node_disk_info", Gauge, "Info of /sys/block/<block_device>.", DISK, "device=\"nvme{n}n1\",major=\"259\",minor=\"{n}\",model=\"Micron_7450_MTFDKCC3T8TFR\",path=\"pci-0000:0{n}:00.0-nvme-1\",revision=\"E2MU200\",serial=\"232941F{hash}{n}\",wwn=\"\"", Text("1")),
    family("node_disk_discard_time_seconds_total", Counter, "This is the total number of seconds spent by all discards.", DISK, DISK_LABELS, Text("0")),
    family("node_disk_discarded_sectors_total", Counter, "The total number of sectors discarded successfully.", DISK, DISK_LABELS, Text("0")),
    family("node_disk_discards_completed_total", Counter, "The total number of discards completed successfully.", DISK, DISK_LABELS, Text("0")),
    family("node_disk_flush_requests_total", Counter, "The total number of flush requests completed successfully", DISK, DISK_LABELS, Idle(7, 1)),
    family("node_disk_io_now", Gauge, "The number of I/Os currently in progress.", DISK, DISK_LABELS, Text("0")),
    family("node_disk_io_time_seconds_total", Counter, "Total seconds spent doing I/Os.", DISK, DISK_LABELS, Value::Counter(10, 3, 300)),
    family("node_disk_io_time_weighted_seconds_total", Counter, "The weighted # of seconds spent doing I/Os.", DISK, DISK_LABELS, Value::Counter(10, 3, 900)),
    family("node_disk_read_bytes_total", Counter, "The total number of bytes read successfully.", DISK, DISK_LABELS, Value::Counter(12, 0, 400_000)),
    family("node_disk_reads_completed_total", Counter, "The total number of reads completed successfully.", DISK, DISK_LABELS, Idle(8, 2)),
    family("node_disk_write_time_seconds_total", Counter, "This is the total number of seconds spent by all writes.", DISK, DISK_LABELS, Value::Counter(9, 3, 150)),
    family("node_disk_writes_completed_total", Counter, "The total number of writes completed successfully.", DISK, DISK_LABELS, Value::Counter(9, 0, 700)),
    family("node_disk_writes_merged_total", Counter, "The number of writes merged.", DISK, DISK_LABELS, Value::Counter(9, 0, 90)),
    family("node_disk_written_bytes_total", Counter, "The total number of bytes written successfully.", DISK, DISK_LABELS, Value::Counter(13, 0, 9_000_000)),
    family("node_entropy_available_bits", Gauge, "Bits of available entropy.", MACHINE, "", Text("256")),
    family("node_exporter_build_info", Gauge, "A metric with a constant '1' value labeled by version, revision, branch, goversion from which node_exporter was built, and the goos and goarch for the build.", MACHINE, "branch=\"HEAD\",goarch=\"amd64\",goos=\"linux\",goversion=\"go1.24.2\",revision=\"02afa5c53c36123611533f2defea6ccd4546a9bb\",tags=\"unknown\",version=\"1.9.1\"", Text("1")),
    family("node_filefd_allocated", Gauge, "File descriptor statistics: allocated.", MACHINE, "", Value::Gauge(5, 0)),
    family("node_filefd_maximum", Gauge, "File descriptor statistics: maximum.", MACHINE, "", Text("9.223372036854776e+18")),
    family("node_filesystem_avail_bytes", Gauge, "Filesystem space available to non-root users in bytes.", MOUNT, MOUNT_LABELS, Pages(12)),
    family("node_filesystem_device_error", Gauge, "Whether an error occurred while getting statistics for the given device.", MOUNT, MOUNT_LABELS, Text("0")),
    family("node_filesystem_files", Gauge, "Filesystem total file nodes.", MOUNT, MOUNT_LABELS, Still(8, 0)),
    family("node_filesystem_files_free", Gauge, "Filesystem total free file nodes.", MOUNT, MOUNT_LABELS, Value::Gauge(8, 0)),
    family("node_filesystem_free_bytes", Gauge, "Filesystem free space in bytes.", MOUNT, MOUNT_LABELS, Pages(12)),
    family("node_filesystem_readonly", Gauge, "Filesystem read-only status.", MOUNT, MOUNT_LABELS, Text("0")),
    family("node_filesystem_size_bytes", Gauge, "Filesystem size in bytes.", MOUNT, MOUNT_LABELS, Still(13, 0)),
    family("node_forks_total", Counter, "Total number of forks.", MACHINE, "", Value::Counter(9, 0, 300)),
    family("node_hwmon_temp_celsius", Gauge, "Hardware monitor for temperature (input)", CPU, "chip=\"platform_coretemp_0\",sensor=\"temp{n}\"", Value::Gauge(2, 0)),
    family("node_intr_total", Counter, "Total number of interrupts serviced.", MACHINE, "", Value::Counter(12, 0, 40_000)),
    family("node_load1", Gauge, "1m load average.", MACHINE, "", Value::Gauge(3, 2)),
    family("node_load15", Gauge, "15m load average.", MACHINE, "", Value::Gauge(3, 2)),
    family("node_load5", Gauge, "5m load average.", MACHINE, "", Value::Gauge(3, 2)),
    family("node_memory_Active_bytes", Gauge, "Memory information field Active_bytes.", MACHINE, "", Pages(11)),
    family("node_memory_AnonPages_bytes", Gauge, "Memory information field AnonPages_bytes.", MACHINE, "", Pages(10)),
    family("node_memory_Buffers_bytes", Gauge, "Memory information field Buffers_bytes.", MACHINE, "", Pages(9)),
    family("node_memory_Cached_bytes", Gauge, "Memory information field Cached_bytes.", MACHINE, "", Pages(11)),
    family("node_memory_CommitLimit_bytes", Gauge, "Memory information field CommitLimit_bytes.", MACHINE, "", Still(11, 0)),
    family("node_memory_Committed_AS_bytes", Gauge, "Memory information field Committed_AS_bytes.", MACHINE, "", Pages(11)),
    family("node_memory_Dirty_bytes", Gauge, "Memory information field Dirty_bytes.", MACHINE, "", Pages(7)),
    family("node_memory_HugePages_Total", Gauge, "Memory information field HugePages_Total.", MACHINE, "", Text("0")),
    family("node_memory_Inactive_bytes", Gauge, "Memory information field Inactive_bytes.", MACHINE, "", Pages(10)),
    family("node_memory_MemAvailable_bytes", Gauge, "Memory information field MemAvailable_bytes.", MACHINE, "", Pages(11)),
    family("node_memory_MemFree_bytes", Gauge, "Memory information field MemFree_bytes.", MACHINE, "", Pages(10)),
    family("node_memory_MemTotal_bytes", Gauge, "Memory information field MemTotal_bytes.", MACHINE, "", Still(12, 0)),
    family("node_memory_SwapTotal_bytes", Gauge, "Memory information field SwapTotal_bytes.", MACHINE, "", Text("0")),
    family("node_memory_Writeback_bytes", Gauge, "Memory information field Writeback_bytes.", MACHINE, "", Text("0")),
    family("node_netstat_Ip_Forwarding", Untyped, "Statistic IpForwarding.", MACHINE, "", Text("1")),
    family("node_netstat_TcpExt_ListenDrops", Untyped, "Statistic TcpExtListenDrops.", MACHINE, "", Idle(4, 6)),
    family("node_netstat_Tcp_ActiveOpens", Untyped, "Statistic TcpActiveOpens.", MACHINE, "", Value::Counter(9, 0, 80)),
    family("node_netstat_Tcp_CurrEstab", Untyped, "Statistic TcpCurrEstab.", MACHINE, "", Value::Gauge(3, 0)),
    family("node_netstat_Tcp_InSegs", Untyped, "Statistic TcpInSegs.", MACHINE, "", Value::Counter(11, 0, 30_000)),
    family("node_netstat_Tcp_OutSegs", Untyped, "Statistic TcpOutSegs.", MACHINE, "", Value::Counter(11, 0, 35_000)),
    family("node_netstat_Tcp_RetransSegs", Untyped, "Statistic TcpRetransSegs.", MACHINE, "", Idle(7, 1)),
    family("node_netstat_Udp_InDatagrams", Untyped, "Statistic UdpInDatagrams.", MACHINE, "", Value::Counter(9, 0, 400)),
    family("node_network_carrier", Gauge, "Network device property: carrier", NIC, NIC_LABELS, Text("1")),
    family("node_network_info", Gauge, "Non-numeric data from /sys/class/net/<iface>, value is always 1.", NIC, "address=\"0c:42:a1:7e:{n}0:1b\",adminstate=\"up\",broadcast=\"ff:ff:ff:ff:ff:ff\",device=\"eth{n}\",duplex=\"full\",ifalias=\"\",operstate=\"up\"", Text("1")),
    family("node_network_mtu_bytes", Gauge, "Network device property: mtu_bytes", NIC, NIC_LABELS, Text("1500")),
    family("node_network_receive_bytes_total", Counter, "Network device statistic receive_bytes.", NIC, NIC_LABELS, Value::Counter(13, 0, 30_000_000)),
    family("node_network_receive_drop_total", Counter, "Network device statistic receive_drop.", NIC, NIC_LABELS, Idle(5, 5)),
    family("node_network_receive_errs_total", Counter, "Network device statistic receive_errs.", NIC, NIC_LABELS, Text("0")),
    family("node_network_receive_packets_total", Counter, "Network device statistic receive_packets.", NIC, NIC_LABELS, Value::Counter(11, 0, 40_000)),
    family("node_network_speed_bytes", Gauge, "Network device property: speed_bytes", NIC, NIC_LABELS, Text("3.125e+09")),
    family("node_network_transmit_bytes_total", Counter, "Network device statistic transmit_bytes.", NIC, NIC_LABELS, Value::Counter(13, 0, 20_000_000)),
    family("node_network_transmit_drop_total", Counter, "Network device statistic transmit_drop.", NIC, NIC_LABELS, Text("0")),
    family("node_network_transmit_errs_total", Counter, "Network device statistic transmit_errs.", NIC, NIC_LABELS, Text("0")),
    family("node_network_transmit_packets_total", Counter, "Network device statistic transmit_packets.", NIC, NIC_LABELS, Value::Counter(11, 0, 35_000)),
    family("node_network_up", Gauge, "Value is 1 if operstate is 'up', 0 otherwise.", NIC, NIC_LABELS, Text("1")),
    // Interfaces of containers come and go. Their families have names of their own, because a family of
    // two dimensions would be more than the table can say.
    family("node_ethtool_info", Gauge, "A metric with a constant '1' value labeled by driver information.", VETH, "bus_info=\"\",device=\"lxc{port}\",driver=\"veth\",expansion_rom_version=\"\",firmware_version=\"\",version=\"1.0\"", Text("1")),
    family("node_ethtool_peer_ifindex", Untyped, "Network interface peer_ifindex", VETH, VETH_LABELS, Still(2, 0)),
    each("node_ethtool_queue_rx_bytes", Untyped, "Network interface rx_queue bytes", VETH, "device=\"lxc{port}\",queue=\"{each}\"", &["0", "1"], Value::Counter(11, 0, 200_000)),
    each("node_ethtool_queue_rx_packets", Untyped, "Network interface rx_queue packets", VETH, "device=\"lxc{port}\",queue=\"{each}\"", &["0", "1"], Value::Counter(9, 0, 600)),
    each("node_ethtool_queue_tx_bytes", Untyped, "Network interface tx_queue bytes", VETH, "device=\"lxc{port}\",queue=\"{each}\"", &["0", "1"], Value::Counter(11, 0, 150_000)),
    each("node_ethtool_queue_tx_drops", Untyped, "Network interface tx_queue drops", VETH, "device=\"lxc{port}\",queue=\"{each}\"", &["0", "1"], Text("0")),
    each("node_pressure_waiting_seconds_total", Counter, "Total time in seconds that processes have waited for a resource", MACHINE, "resource=\"{each}\"", &["cpu", "io", "memory"], Value::Counter(12, 6, 90_000)),
    family("node_procs_blocked", Gauge, "Number of processes blocked waiting for I/O to complete.", MACHINE, "", Text("0")),
    family("node_procs_running", Gauge, "Number of processes in runnable state.", MACHINE, "", Value::Gauge(1, 0)),
    each("node_scrape_collector_duration_seconds", Gauge, "node_exporter: Duration of a collector scrape.", MACHINE, "collector=\"{each}\"", &["cpu", "diskstats", "filesystem", "loadavg", "meminfo", "netdev", "netstat", "schedstat", "softnet", "systemd", "time", "vmstat"], Value::Ratio(9)),
    each("node_scrape_collector_success", Gauge, "node_exporter: Whether a collector succeeded.", MACHINE, "collector=\"{each}\"", &["cpu", "diskstats", "filesystem", "loadavg", "meminfo", "netdev", "netstat", "schedstat", "softnet", "systemd", "time", "vmstat"], Text("1")),
    family("node_sockstat_TCP_alloc", Gauge, "Number of TCP sockets in state alloc.", MACHINE, "", Value::Gauge(3, 0)),
    family("node_sockstat_TCP_mem_bytes", Gauge, "Number of TCP sockets in state mem_bytes.", MACHINE, "", Pages(8)),
    family("node_sockstat_sockets_used", Gauge, "Number of IPv4 sockets in use.", MACHINE, "", Value::Gauge(4, 0)),
    family("node_systemd_unit_start_time_seconds", Gauge, "Start time of the unit since unix epoch in seconds.", UNIT, "name=\"{unit}-{id}.scope\"", Value::Began(0)),
    each("node_systemd_unit_state", Gauge, "Systemd unit", UNIT, "name=\"{unit}-{id}.scope\",state=\"{each}\",type=\"simple\"", STATES, Text("0")),
    family("node_time_seconds", Gauge, "System time in seconds since epoch (1970).", MACHINE, "", Value::Now),
    family("node_uname_info", Gauge, "Labeled system information as provided by the uname system call.", MACHINE, "domainname=\"(none)\",machine=\"x86_64\",nodename=\"node-{hash}\",release=\"6.12.22-amd64\",sysname=\"Linux\",version=\"#1 SMP PREEMPT_DYNAMIC Debian 6.12.22-1 (2025-04-10)\"", Text("1")),
    family("node_vmstat_pgfault", Untyped, "/proc/vmstat information field pgfault.", MACHINE, "", Value::Counter(12, 0, 90_000)),
    family("node_vmstat_pgmajfault", Untyped, "/proc/vmstat information field pgmajfault.", MACHINE, "", Idle(6, 3)),
    family("node_vmstat_pgpgin", Untyped, "/proc/vmstat information field pgpgin.", MACHINE, "", Value::Counter(10, 0, 500)),
    family("node_vmstat_pgpgout", Untyped, "/proc/vmstat information field pgpgout.", MACHINE, "", Value::Counter(11, 0, 9_000)),
    family("process_cpu_seconds_total", Counter, "Total user and system CPU time spent in seconds.", MACHINE, "", Value::Counter(6, 2, 2)),
    family("process_open_fds", Gauge, "Number of open file descriptors.", MACHINE, "", Text("10")),
    family("process_resident_memory_bytes", Gauge, "Resident memory size in bytes.", MACHINE, "", Pages(8)),
    family("process_start_time_seconds", Gauge, "Start time of the process since unix epoch in seconds.", MACHINE, "", Value::Began(2)),
    family("promhttp_metric_handler_requests_in_flight", Gauge, "Current number of scrapes being served.", MACHINE, "", Text("1")),
];
