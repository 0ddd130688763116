//! Service discovery: where a job's targets come from.
//!
//! Static, file and HTTP discovery work. Every other one is understood down to its last field, and
//! named as not working yet.

mod clouds;
mod kubernetes;
mod services;
mod working;

use super::error::Report;
use super::model::Discovery;
use super::schema::{Field, sections};
use super::section::Section;

/// The fields of a section that has targets, in the order of their names.
pub(super) const FIELDS: &[Field] = &[
    sections("aws_sd_configs", &clouds::AWS),
    sections("azure_sd_configs", &clouds::AZURE),
    sections("consul_sd_configs", &services::CONSUL),
    sections("digitalocean_sd_configs", &clouds::DIGITALOCEAN),
    sections("dns_sd_configs", &services::DNS),
    sections("docker_sd_configs", &services::DOCKER),
    sections("dockerswarm_sd_configs", &services::DOCKERSWARM),
    sections("ec2_sd_configs", &clouds::EC2),
    sections("ecs_sd_configs", &clouds::ECS),
    sections("elasticache_sd_configs", &clouds::ELASTICACHE),
    sections("eureka_sd_configs", &services::EUREKA),
    sections("file_sd_configs", &working::FILE),
    sections("gce_sd_configs", &clouds::GCE),
    sections("hetzner_sd_configs", &clouds::HETZNER),
    sections("http_sd_configs", &working::HTTP),
    sections("ionos_sd_configs", &clouds::IONOS),
    sections("kubernetes_sd_configs", &kubernetes::KUBERNETES),
    sections("kuma_sd_configs", &services::KUMA),
    sections("lightsail_sd_configs", &clouds::LIGHTSAIL),
    sections("linode_sd_configs", &clouds::LINODE),
    sections("marathon_sd_configs", &services::MARATHON),
    sections("msk_sd_configs", &clouds::MSK),
    sections("nerve_sd_configs", &services::NERVE),
    sections("nomad_sd_configs", &services::NOMAD),
    sections("oci_sd_configs", &clouds::OCI),
    sections("openstack_sd_configs", &clouds::OPENSTACK),
    sections("outscale_sd_configs", &clouds::OUTSCALE),
    sections("ovhcloud_sd_configs", &clouds::OVHCLOUD),
    sections("puppetdb_sd_configs", &services::PUPPETDB),
    sections("rds_sd_configs", &clouds::RDS),
    sections("scaleway_sd_configs", &clouds::SCALEWAY),
    sections("serverset_sd_configs", &services::SERVERSET),
    sections("stackit_sd_configs", &clouds::STACKIT),
    sections("static_configs", &working::STATIC),
    sections("triton_sd_configs", &clouds::TRITON),
    sections("uyuni_sd_configs", &services::UYUNI),
    sections("vultr_sd_configs", &clouds::VULTR),
];

/// Refuses URLs among the static targets. Without relabelling, what stands there is the address.
pub(super) fn check_static_targets(section: &Section, report: &mut Report) {
    for group in section.sections("static_configs") {
        for (at, target) in group.texts("targets") {
            if target.contains('/') {
                report.error(
                    *at,
                    group.path_of("targets"),
                    format!(
                        "{target:?} is not a host and port: write host:port without / and scheme"
                    ),
                );
            }
        }
    }
}

/// The discoveries that work. The others go to the report.
pub(super) fn build(section: &Section, report: &mut Report) -> Vec<Discovery> {
    let mut discoveries = Vec::new();
    for field in FIELDS {
        let entries = section.sections(field.name);
        match field.name {
            "static_configs" if entries.is_empty() => {}
            "static_configs" => discoveries.push(working::build_static(entries)),
            "file_sd_configs" => discoveries.extend(entries.iter().map(working::build_file)),
            "http_sd_configs" => {
                let sound = entries.iter().filter(|entry| !entry.faulty);
                discoveries.extend(sound.filter_map(|entry| working::build_http(entry, report)));
            }
            name => {
                for entry in entries {
                    let kind = name.trim_end_matches("_sd_configs");
                    report.unsupported(
                        entry.at,
                        &entry.path,
                        format!("discovery of the kind {kind} doesn't work yet"),
                    );
                }
            }
        }
    }
    discoveries
}
