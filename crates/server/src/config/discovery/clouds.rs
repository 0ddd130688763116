//! What the providers of machines know: their sections, as tables.

use crate::config::address;
use crate::config::cloud_auth::is_uuid;
use crate::config::error::Report;
use crate::config::http_options::{self, TLS};
use crate::config::schema::{
    Field, Schema, boolean, choice, count, duration, int, path, secret, section, sections, text,
    texts, unchecked,
};
use crate::config::section::{Data, Section};
use crate::secret::REDACTED;

const fn port() -> Field {
    int("port").or_int(80).always()
}

const fn refresh(seconds: u64) -> Field {
    duration("refresh_interval").or_seconds(seconds)
}

pub(super) static AZURE: Schema = Schema {
    groups: &[
        &[
            text("environment").or("AzurePublicCloud"),
            port(),
            text("subscription_id").always(),
            text("tenant_id"),
            text("client_id"),
            secret("client_secret"),
            refresh(300),
            choice(
                "authentication_method",
                &["OAuth", "ManagedIdentity", "SDK", "WorkloadIdentity"],
            )
            .or("OAuth"),
            text("resource_group"),
        ],
        http_options::FIELDS,
    ],
    check: |section, report| {
        section.require(report, "subscription_id");
        if section.text("authentication_method") == "OAuth" {
            for name in ["tenant_id", "client_id", "client_secret"] {
                section.require(report, name);
            }
        }
        http_options::check(section, report);
    },
};

/// How one reaches an API of AWS.
const AWS_ACCESS: &[Field] = &[
    text("region").always(),
    text("endpoint").always(),
    text("access_key"),
    secret("secret_key"),
    text("profile"),
    text("role_arn"),
    text("external_id"),
];

/// The same for the older two sections, which print the endpoint first.
const AWS_ACCESS_OLD: &[Field] = &[
    text("endpoint").always(),
    text("region").always(),
    text("access_key"),
    secret("secret_key"),
    text("profile"),
    text("role_arn"),
    text("external_id"),
];

static AWS_FILTER: Schema =
    Schema { groups: &[&[text("name").always(), texts("values").always()]], check: unchecked };

/// One section for all of AWS; the role chooses the service.
pub(super) static AWS: Schema = Schema {
    groups: &[
        &[choice("role", &["ec2", "ecs", "elasticache", "lightsail", "msk", "rds"]).always()],
        AWS_ACCESS,
        &[
            duration("refresh_interval"),
            int("port"),
            sections("filters", &AWS_FILTER),
            texts("clusters"),
        ],
        http_options::FIELDS,
    ],
    check: |section, report| {
        section.require(report, "role");
        http_options::check(section, report);
    },
};

pub(super) static EC2: Schema = Schema {
    groups: &[
        AWS_ACCESS_OLD,
        &[refresh(60), port(), sections("filters", &AWS_FILTER)],
        http_options::FIELDS,
    ],
    check: |section, report| {
        for filter in section.sections("filters") {
            filter.require(report, "values");
        }
        http_options::check(section, report);
    },
};

pub(super) static LIGHTSAIL: Schema = Schema {
    groups: &[AWS_ACCESS_OLD, &[refresh(60), port()], http_options::FIELDS],
    check: http_options::check,
};

/// The services of AWS that have clusters.
const AWS_CLUSTERS: &[Field] = &[texts("clusters"), port(), refresh(60)];

pub(super) static ECS: Schema = Schema {
    groups: &[
        AWS_ACCESS,
        AWS_CLUSTERS,
        &[count("request_concurrency").or_int(20)],
        http_options::FIELDS,
    ],
    check: http_options::check,
};

pub(super) static ELASTICACHE: Schema = Schema {
    groups: &[
        AWS_ACCESS,
        AWS_CLUSTERS,
        &[count("request_concurrency").or_int(10)],
        http_options::FIELDS,
    ],
    check: http_options::check,
};

pub(super) static MSK: Schema = Schema {
    groups: &[
        AWS_ACCESS,
        AWS_CLUSTERS,
        &[count("request_concurrency").or_int(10)],
        http_options::FIELDS,
    ],
    check: http_options::check,
};

pub(super) static RDS: Schema = Schema {
    groups: &[
        AWS_ACCESS,
        AWS_CLUSTERS,
        &[sections("filters", &AWS_FILTER), count("request_concurrency").or_int(10)],
        http_options::FIELDS,
    ],
    check: http_options::check,
};

pub(super) static DIGITALOCEAN: Schema = Schema {
    groups: &[
        http_options::FIELDS,
        &[
            refresh(60).always(),
            port(),
            choice("role", &["droplets", "databases"]).or("droplets").always(),
        ],
    ],
    check: |section, report| {
        section.require(report, "role");
        http_options::check(section, report);
    },
};

pub(super) static GCE: Schema = Schema {
    groups: &[&[
        text("project").always(),
        text("zone").always(),
        text("filter"),
        refresh(60),
        port(),
        text("tag_separator").or(","),
    ]],
    check: |section, report| {
        section.require(report, "project");
        section.require(report, "zone");
    },
};

pub(super) static HETZNER: Schema = Schema {
    groups: &[
        http_options::FIELDS,
        &[
            refresh(60).always(),
            port(),
            choice("role", &["robot", "hcloud"]).always(),
            text("label_selector"),
        ],
    ],
    check: |section, report| {
        section.require(report, "role");
        http_options::check(section, report);
    },
};

pub(super) static IONOS: Schema = Schema {
    groups: &[
        &[text("datacenter_id").always()],
        http_options::FIELDS,
        &[refresh(60).always(), port()],
    ],
    check: |section, report| {
        section.require(report, "datacenter_id");
        http_options::check(section, report);
    },
};

pub(super) static LINODE: Schema = Schema {
    groups: &[
        http_options::FIELDS,
        &[refresh(60).always(), port(), text("tag_separator").or(","), text("region")],
    ],
    check: http_options::check,
};

/// What `oci_sd_configs` needs to sign requests with a user's key.
const OCI_KEY: [&str; 6] =
    ["tenancy", "user", "fingerprint", "key_file", "key_passphrase", "key_passphrase_file"];

pub(super) static OCI: Schema = Schema {
    groups: &[
        &[
            choice("auth", &["api_key", "instance_principal"]).or("api_key"),
            text("tenancy"),
            text("user"),
            text("fingerprint"),
            path("key_file"),
            secret("key_passphrase"),
            path("key_passphrase_file"),
            text("region").always(),
            texts("compartments"),
        ],
        http_options::FIELDS,
        &[port(), refresh(60).always()],
    ],
    check: check_oci,
};

fn check_oci(section: &mut Section, report: &mut Report) {
    section.require(report, "region");
    if section.text("auth") == "instance_principal" {
        for name in OCI_KEY.iter().filter(|name| section.has(name)) {
            section.error(report, name, "it belongs to the auth \"api_key\": remove it");
        }
    } else {
        for name in &OCI_KEY[..4] {
            section.require(report, name);
        }
        section.at_most_one(report, &["key_passphrase", "key_passphrase_file"]);
    }
    for (at, name) in section.texts("compartments") {
        if name.is_empty() {
            report.error(*at, section.path_of("compartments"), "a compartment must not be empty");
        }
    }
    section.require(report, "refresh_interval");
    http_options::check(section, report);
}

pub(super) static OPENSTACK: Schema = Schema {
    groups: &[&[
        text("identity_endpoint").always(),
        text("username").always(),
        text("userid").always(),
        secret("password").always(),
        text("project_name").always(),
        text("project_id").always(),
        text("domain_name").always(),
        text("domain_id").always(),
        text("application_credential_name").always(),
        text("application_credential_id").always(),
        secret("application_credential_secret").always(),
        choice("role", &["instance", "hypervisor", "loadbalancer"]).always(),
        text("region").always(),
        refresh(60).always(),
        port(),
        boolean("all_tenants"),
        section("tls_config", &TLS),
        choice("availability", &["public", "internal", "admin"]).or("public"),
    ]],
    check: |section, report| {
        for name in ["role", "region", "availability"] {
            section.require(report, name);
        }
    },
};

pub(super) static OUTSCALE: Schema = Schema {
    groups: &[
        &[
            text("endpoint"),
            text("region").or("eu-west-2").always(),
            text("access_key").always(),
            secret("secret_key").always(),
            path("secret_key_file").always(),
            refresh(60),
            port(),
        ],
        http_options::FIELDS,
    ],
    check: |section, report| {
        section.require(report, "region");
        section.require(report, "access_key");
        one_secret_key(section, report);
        if !section.has("endpoint") {
            let endpoint = format!("https://api.{}.outscale.com/api/v1", section.text("region"));
            section.set("endpoint", Data::Text(endpoint));
        }
        http_options::check(section, report);
    },
};

fn one_secret_key(section: &Section, report: &mut Report) {
    if section.at_most_one(report, &["secret_key", "secret_key_file"])
        && !section.has("secret_key_file")
        && !section.has("secret_key")
    {
        section.error(report, "secret_key", "one of secret_key and secret_key_file is required");
    }
}

pub(super) static OVHCLOUD: Schema = Schema {
    groups: &[&[
        text("endpoint").or("ovh-eu").always(),
        text("application_key").always(),
        secret("application_secret").always(),
        secret("consumer_key").always(),
        refresh(60).always(),
        choice("service", &["dedicated_server", "vps"]).always(),
    ]],
    check: |section, report| {
        for name in ["endpoint", "application_key", "application_secret", "consumer_key", "service"]
        {
            section.require(report, name);
        }
    },
};

pub(super) static SCALEWAY: Schema = Schema {
    groups: &[
        &[
            text("project_id").always(),
            text("api_url").or("https://api.scaleway.com"),
            text("zone").or("fr-par-1").always(),
            text("access_key").always(),
            secret("secret_key").always(),
            path("secret_key_file").always(),
            text("name_filter"),
            texts("tags_filter"),
        ],
        http_options::FIELDS,
        &[refresh(60).always(), port(), choice("role", &["instance", "baremetal"]).always()],
    ],
    check: |section, report| {
        for name in ["role", "project_id", "access_key"] {
            section.require(report, name);
        }
        one_secret_key(section, report);
        for name in ["project_id", "secret_key"] {
            // A printed configuration, in which secrets are hidden, is read again.
            let hidden = section.text(name) == REDACTED;
            if section.has(name) && !hidden && !is_uuid(section.text(name)) {
                section.error(report, name, "the value is not a UUID");
            }
        }
        let key = section.text("access_key");
        let fits = key.len() == 20
            && key.strip_prefix("SCW").is_some_and(|rest| {
                rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
            });
        if !key.is_empty() && !fits {
            let message = "an access key is SCW and 17 capital letters or digits";
            section.error(report, "access_key", message);
        }
        http_options::check(section, report);
    },
};

pub(super) static STACKIT: Schema = Schema {
    groups: &[
        http_options::FIELDS,
        &[
            text("project").always(),
            refresh(60),
            int("port").or_int(80),
            text("region").or("eu01"),
            text("endpoint"),
            secret("service_account_key"),
            secret("private_key"),
            text("service_account_key_path"),
            text("private_key_path"),
            text("credentials_file_path"),
        ],
    ],
    check: |section, report| {
        if !section.has("endpoint") && !section.has("region") {
            section.error(report, "region", "one of region and endpoint is required");
        }
        if let Err(reason) = address::parse(section.text("endpoint")) {
            section.error(report, "endpoint", format!("invalid endpoint: {reason}"));
        }
        http_options::check(section, report);
    },
};

pub(super) static TRITON: Schema = Schema {
    groups: &[&[
        text("account").always(),
        choice("role", &["container", "cn"]).or("container").always(),
        text("dns_suffix").always(),
        text("endpoint").always(),
        texts("groups"),
        int("port").or_int(9163).always(),
        refresh(60),
        section("tls_config", &TLS),
        int("version").or_int(1).always(),
    ]],
    check: |section, report| {
        for name in ["role", "account", "dns_suffix", "endpoint", "refresh_interval"] {
            section.require(report, name);
        }
    },
};

pub(super) static VULTR: Schema = Schema {
    groups: &[http_options::FIELDS, &[refresh(60).always(), port()]],
    check: http_options::check,
};
