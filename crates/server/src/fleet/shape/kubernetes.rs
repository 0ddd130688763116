//! A Kubernetes node's pods and containers, as cAdvisor and kube-state-metrics see them: ten labels, most
//! of them long.

use super::{Dimension, Family, Kind, ONCE, Shape, Value, each, family};
use Kind::{Counter, Gauge};
use Value::{Idle, Pages, Text};

const NODE: usize = 0;
const POD: usize = 1;

const CONTAINER: &str = "container=\"{app}\",id=\"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-{id}.scope\",image=\"registry.example.com/{team}/{app}:v2.{n}.1\",name=\"{id}\",namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\"";
const ON_DEVICE: &str = "container=\"{app}\",device=\"/dev/nvme{each}n1\",id=\"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-{id}.scope\",image=\"registry.example.com/{team}/{app}:v2.{n}.1\",name=\"{id}\",namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\"";
const INTERFACE: &str = "id=\"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice\",image=\"registry.k8s.io/pause:3.10\",interface=\"eth0\",name=\"{id}\",namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\"";
const FAILURES: &str = "container=\"{app}\",failure_type=\"{each}\",id=\"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-{id}.scope\",image=\"registry.example.com/{team}/{app}:v2.{n}.1\",name=\"{id}\",namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\",scope=\"container\"";
const STATE: &str = "namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\",uid=\"{uid}\"";
const PHASE: &str =
    "namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\",uid=\"{uid}\",phase=\"{each}\"";
const CONDITION: &str =
    "namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\",uid=\"{uid}\",condition=\"{each}\"";
const CONTAINER_STATE: &str =
    "namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\",uid=\"{uid}\",container=\"{app}\"";
const RESOURCE: &str = "namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\",uid=\"{uid}\",container=\"{app}\",node=\"worker-{n}.example.com\",{each}";

pub(super) const SHAPE: Shape = Shape {
    dimensions: &[ONCE, Dimension { weight: 1.0, churns: true }],
    lists: &[
        (
            "app",
            &[
                "checkout",
                "cart-service",
                "payment-gateway",
                "recommendation",
                "frontend",
                "product-catalog",
                "shipping-quote",
                "email-sender",
                "ad-selector",
                "currency-converter",
                "fraud-detection",
                "inventory-sync",
                "session-store",
            ],
        ),
        ("team", &["shop", "payments", "platform", "search", "logistics"]),
    ],
    families: FAMILIES,
    filler: family(
        "kube_pod_ips",
        Gauge,
        "Pod IP addresses",
        POD,
        "namespace=\"{team}\",pod=\"{app}-{n}-{hash}-{suffix}\",uid=\"{uid}\",ip=\"10.244.7.{n}\",ip_family=\"4\"",
        Text("1"),
    ),
    plain: false,
};

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    family("cadvisor_version_info", Gauge, "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version & cadvisor revision.", NODE, "cadvisorRevision=\"\",cadvisorVersion=\"\",dockerVersion=\"\",kernelVersion=\"6.12.22-amd64\",osVersion=\"Debian GNU/Linux 12 (bookworm)\"", Text("1")),
    family("container_blkio_device_usage_total", Counter, "Blkio Device bytes usage", POD, CONTAINER, Value::Counter(11, 0, 90_000)),
    family("container_cpu_cfs_periods_total", Counter, "Number of elapsed enforcement period intervals.", POD, CONTAINER, Value::Counter(8, 0, 40)),
    family("container_cpu_cfs_throttled_periods_total", Counter, "Number of throttled period intervals.", POD, CONTAINER, Idle(5, 2)),
    family("container_cpu_cfs_throttled_seconds_total", Counter, "Total time duration the container has been throttled.", POD, CONTAINER, Value::Counter(13, 9, 9_000_000)),
    each("container_cpu_usage_seconds_total", Counter, "Cumulative cpu time consumed in seconds.", POD, "container=\"{app}\",cpu=\"{each}\",id=\"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-{id}.scope\",image=\"registry.example.com/{team}/{app}:v2.{n}.1\",name=\"{id}\",namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\"", &["total"], Value::Counter(14, 9, 400_000_000)),
    each("container_fs_reads_bytes_total", Counter, "Cumulative count of bytes read", POD, ON_DEVICE, &["0", "1"], Idle(9, 3)),
    each("container_fs_reads_total", Counter, "Cumulative count of reads completed", POD, ON_DEVICE, &["0", "1"], Idle(6, 3)),
    each("container_fs_writes_bytes_total", Counter, "Cumulative count of bytes written", POD, ON_DEVICE, &["0", "1"], Value::Counter(10, 0, 40_000)),
    each("container_fs_writes_total", Counter, "Cumulative count of writes completed", POD, ON_DEVICE, &["0", "1"], Value::Counter(8, 0, 12)),
    family("container_last_seen", Gauge, "Last time a container was seen by the exporter", POD, CONTAINER, Value::Now),
    family("container_memory_cache", Gauge, "Number of bytes of page cache memory.", POD, CONTAINER, Pages(8)),
    family("container_memory_failcnt", Counter, "Number of memory usage hits limits", POD, CONTAINER, Text("0")),
    each("container_memory_failures_total", Counter, "Cumulative count of memory allocation failures.", POD, FAILURES, &["pgfault", "pgmajfault"], Idle(7, 1)),
    family("container_memory_mapped_file", Gauge, "Size of memory mapped files in bytes.", POD, CONTAINER, Pages(7)),
    family("container_memory_max_usage_bytes", Gauge, "Maximum memory usage recorded in bytes", POD, CONTAINER, Value::Still(9, 0)),
    family("container_memory_rss", Gauge, "Size of RSS in bytes.", POD, CONTAINER, Pages(9)),
    family("container_memory_swap", Gauge, "Container swap usage in bytes.", POD, CONTAINER, Text("0")),
    family("container_memory_usage_bytes", Gauge, "Current memory usage in bytes, including all memory regardless of when it was accessed", POD, CONTAINER, Pages(9)),
    family("container_memory_working_set_bytes", Gauge, "Current working set in bytes.", POD, CONTAINER, Pages(9)),
    family("container_network_receive_bytes_total", Counter, "Cumulative count of bytes received", POD, INTERFACE, Value::Counter(11, 0, 200_000)),
    family("container_network_receive_errors_total", Counter, "Cumulative count of errors encountered while receiving", POD, INTERFACE, Text("0")),
    family("container_network_receive_packets_dropped_total", Counter, "Cumulative count of packets dropped while receiving", POD, INTERFACE, Text("0")),
    family("container_network_receive_packets_total", Counter, "Cumulative count of packets received", POD, INTERFACE, Value::Counter(9, 0, 700)),
    family("container_network_transmit_bytes_total", Counter, "Cumulative count of bytes transmitted", POD, INTERFACE, Value::Counter(11, 0, 150_000)),
    family("container_network_transmit_errors_total", Counter, "Cumulative count of errors encountered while transmitting", POD, INTERFACE, Text("0")),
    family("container_network_transmit_packets_total", Counter, "Cumulative count of packets transmitted", POD, INTERFACE, Value::Counter(9, 0, 600)),
    family("container_processes", Gauge, "Number of processes running inside the container.", POD, CONTAINER, Text("1")),
    family("container_sockets", Gauge, "Number of open sockets for the container.", POD, CONTAINER, Value::Gauge(2, 0)),
    family("container_spec_cpu_period", Gauge, "CPU period of the container.", POD, CONTAINER, Text("100000")),
    family("container_spec_cpu_quota", Gauge, "CPU quota of the container.", POD, CONTAINER, Text("200000")),
    family("container_spec_cpu_shares", Gauge, "CPU share of the container.", POD, CONTAINER, Text("512")),
    family("container_spec_memory_limit_bytes", Gauge, "Memory limit for the container.", POD, CONTAINER, Text("1.073741824e+09")),
    family("container_start_time_seconds", Gauge, "Start time of the container since unix epoch in seconds.", POD, CONTAINER, Value::Began(0)),
    family("container_threads", Gauge, "Number of threads running inside the container", POD, CONTAINER, Value::Gauge(2, 0)),
    family("kube_pod_container_info", Gauge, "Information about a container in a pod.", POD, "namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\",uid=\"{uid}\",container=\"{app}\",image_spec=\"registry.example.com/{team}/{app}:v2.{n}.1\",image=\"registry.example.com/{team}/{app}:v2.{n}.1\",image_id=\"registry.example.com/{team}/{app}@sha256:5b0bcabd1ed22e9fb1310cf6c2dec7cdef19f0ad69efa1f392e94a4333501270\",container_id=\"containerd://{id}\"", Text("1")),
    each("kube_pod_container_resource_limits", Gauge, "The number of requested limit resource by a container.", POD, RESOURCE, &["resource=\"cpu\",unit=\"core\"", "resource=\"memory\",unit=\"byte\""], Text("2")),
    each("kube_pod_container_resource_requests", Gauge, "The number of requested request resource by a container.", POD, RESOURCE, &["resource=\"cpu\",unit=\"core\"", "resource=\"memory\",unit=\"byte\""], Text("0.5")),
    family("kube_pod_container_status_ready", Gauge, "Describes whether the containers readiness check succeeded.", POD, CONTAINER_STATE, Text("1")),
    family("kube_pod_container_status_restarts_total", Counter, "The number of container restarts per container.", POD, CONTAINER_STATE, Text("0")),
    family("kube_pod_container_status_running", Gauge, "Describes whether the container is currently in running state.", POD, CONTAINER_STATE, Text("1")),
    family("kube_pod_created", Gauge, "Unix creation timestamp", POD, STATE, Value::Began(0)),
    family("kube_pod_info", Gauge, "Information about pod.", POD, "namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\",uid=\"{uid}\",host_ip=\"10.0.12.31\",pod_ip=\"10.244.7.{n}\",node=\"worker-{n}.example.com\",created_by_kind=\"ReplicaSet\",created_by_name=\"{app}-{hash}\",priority_class=\"default\",host_network=\"false\"", Text("1")),
    family("kube_pod_owner", Gauge, "Information about the Pod's owner.", POD, "namespace=\"{team}\",pod=\"{app}-{hash}-{suffix}\",uid=\"{uid}\",owner_kind=\"ReplicaSet\",owner_name=\"{app}-{hash}\",owner_is_controller=\"true\"", Text("1")),
    each("kube_pod_status_phase", Gauge, "The pods current phase.", POD, PHASE, &["Pending", "Succeeded", "Failed", "Unknown", "Running"], Text("0")),
    each("kube_pod_status_ready", Gauge, "Describes whether the pod is ready to serve requests.", POD, CONDITION, &["true", "false", "unknown"], Text("1")),
    each("kube_pod_status_scheduled", Gauge, "Describes the status of the scheduling process for the pod.", POD, CONDITION, &["true", "false", "unknown"], Text("1")),
    family("kube_pod_start_time", Gauge, "Start time in unix timestamp for a pod.", POD, STATE, Value::Began(0)),
    family("machine_cpu_cores", Gauge, "Number of logical CPU cores.", NODE, "boot_id=\"{uid}\",machine_id=\"{short}\",system_uuid=\"{uid}\"", Text("32")),
    family("machine_memory_bytes", Gauge, "Amount of memory installed on the machine.", NODE, "boot_id=\"{uid}\",machine_id=\"{short}\",system_uuid=\"{uid}\"", Text("1.35048519680e+11")),
];
