//! What registries, schedulers and DNS know: their sections, as tables.

use crate::config::address;
use crate::config::error::Report;
use crate::config::http_options;
use crate::config::schema::{
    Field, Schema, boolean, duration, int, path, secret, sections, text, text_map, texts, unchecked,
};
use crate::config::section::Section;

const fn refresh(seconds: u64) -> Field {
    duration("refresh_interval").or_seconds(seconds)
}

pub(super) static CONSUL: Schema = Schema {
    groups: &[
        &[
            text("server").or("localhost:8500"),
            text("path_prefix"),
            secret("token"),
            text("datacenter"),
            text("namespace"),
            text("partition"),
            text("tag_separator").or(","),
            text("scheme").or("http"),
            text("username"),
            secret("password"),
            boolean("allow_stale").or_true().always(),
            refresh(30),
            texts("services"),
            texts("tags"),
            text_map("node_meta"),
            text("filter"),
            text("health_filter"),
        ],
        http_options::FIELDS,
    ],
    check: check_consul,
};

fn check_consul(section: &mut Section, report: &mut Report) {
    if section.text("server").trim().is_empty() {
        section.error(report, "server", "a server address is required");
    }
    for name in ["username", "password"] {
        if section.has(name) && section.has_section("basic_auth") {
            section.error(report, name, "at most one of it and the section basic_auth may be set");
        }
    }
    for name in ["authorization", "oauth2"] {
        if section.has("token") && section.has_section(name) {
            section.error(
                report,
                name,
                "at most one of token, authorization and oauth2 may be set",
            );
        }
    }
    http_options::check(section, report);
}

pub(super) static DNS: Schema = Schema {
    groups: &[&[
        texts("names").always(),
        refresh(30),
        text("type").or("SRV").always(),
        int("port").always(),
    ]],
    check: |section, report| {
        if !section.has("names") {
            section.error(report, "names", "the list must hold at least one name");
        }
        match section.text("type").to_ascii_uppercase().as_str() {
            "SRV" => {}
            "A" | "AAAA" | "MX" | "NS" => {
                if section.int("port") == 0 {
                    section.error(report, "port", "a port is required for all types but SRV");
                }
            }
            _ => {
                let kind = section.text("type");
                section.error(
                    report,
                    "type",
                    format!("unknown record type {kind:?}, expected SRV, A, AAAA, MX or NS"),
                );
            }
        }
    },
};

static DOCKER_FILTER: Schema =
    Schema { groups: &[&[text("name").always(), texts("values").always()]], check: unchecked };

pub(super) static DOCKER: Schema = Schema {
    groups: &[
        http_options::FIELDS,
        &[
            text("host").always(),
            int("port").or_int(80).always(),
            sections("filters", &DOCKER_FILTER).always(),
            text("host_networking_host").or("localhost").always(),
            refresh(60).always(),
            boolean("match_first_network").or_true().always(),
        ],
    ],
    check: |section, report| {
        check_docker_host(section, report);
        http_options::check(section, report);
    },
};

pub(super) static DOCKERSWARM: Schema = Schema {
    groups: &[
        http_options::FIELDS,
        &[
            text("host").always(),
            crate::config::schema::choice("role", &["services", "nodes", "tasks"]).always(),
            int("port").or_int(80).always(),
            sections("filters", &DOCKER_FILTER).always(),
            refresh(60).always(),
        ],
    ],
    check: |section, report| {
        check_docker_host(section, report);
        section.require(report, "role");
        http_options::check(section, report);
    },
};

fn check_docker_host(section: &Section, report: &mut Report) {
    if section.require(report, "host")
        && let Err(reason) = address::parse(section.text("host"))
    {
        section.error(report, "host", reason);
    }
}

pub(super) static EUREKA: Schema = Schema {
    groups: &[&[text("server")], http_options::FIELDS, &[refresh(30)]],
    check: |section, report| {
        check_server_url(section, report);
        http_options::check(section, report);
    },
};

fn check_server_url(section: &Section, report: &mut Report) {
    if section.require(report, "server")
        && let Err(reason) = address::parse_absolute(section.text("server"))
    {
        section.error(report, "server", reason);
    }
}

pub(super) static KUMA: Schema = Schema {
    groups: &[
        http_options::FIELDS,
        &[
            refresh(15),
            duration("fetch_timeout").or_seconds(120),
            text("server"),
            text("client_id"),
        ],
    ],
    check: |section, report| {
        check_server_url(section, report);
        http_options::check(section, report);
    },
};

pub(super) static MARATHON: Schema = Schema {
    groups: &[
        &[texts("servers"), refresh(30), secret("auth_token"), path("auth_token_file")],
        http_options::FIELDS,
    ],
    check: check_marathon,
};

fn check_marathon(section: &mut Section, report: &mut Report) {
    if !section.has("servers") {
        section.error(report, "servers", "the list must hold at least one server");
    }
    let once = section.at_most_one(report, &["auth_token", "auth_token_file"]);
    let token = ["auth_token", "auth_token_file"].into_iter().find(|name| section.has(name));
    if let Some(token) = token
        && once
    {
        for other in ["basic_auth", "bearer_token", "bearer_token_file", "authorization"] {
            if section.has(other) || section.has_section(other) {
                section.error(
                    report,
                    other,
                    format!("at most one of {token} and {other} may be set"),
                );
                return;
            }
        }
    }
    http_options::check(section, report);
}

/// What ZooKeeper's two discoveries share.
const ZOOKEEPER: &[Field] =
    &[texts("servers").always(), texts("paths").always(), duration("timeout").or_seconds(10)];

pub(super) static NERVE: Schema = Schema { groups: &[ZOOKEEPER], check: check_zookeeper };

pub(super) static SERVERSET: Schema = Schema { groups: &[ZOOKEEPER], check: check_zookeeper };

fn check_zookeeper(section: &mut Section, report: &mut Report) {
    for name in ["servers", "paths"] {
        if !section.has(name) {
            section.error(report, name, "the list must hold at least one entry");
        }
    }
    for (at, path) in section.texts("paths") {
        if !path.starts_with('/') {
            let message = format!("the path {path:?} must begin with /");
            report.error(*at, section.path_of("paths"), message);
        }
    }
}

pub(super) static NOMAD: Schema = Schema {
    groups: &[
        &[boolean("allow_stale").or_true().always()],
        http_options::FIELDS,
        &[
            text("namespace").or("default").always(),
            refresh(60).always(),
            text("region").or("global").always(),
            text("server").or("http://localhost:4646").always(),
            text("tag_separator").or(","),
        ],
    ],
    check: |section, report| {
        if section.text("server").trim().is_empty() {
            section.error(report, "server", "a server address is required");
        }
        http_options::check(section, report);
    },
};

pub(super) static PUPPETDB: Schema = Schema {
    groups: &[
        http_options::FIELDS,
        &[
            refresh(60),
            text("url").always(),
            text("query").always(),
            boolean("include_parameters").always(),
            int("port").or_int(80).always(),
        ],
    ],
    check: |section, report| {
        if section.require(report, "url")
            && let Err(reason) = address::parse_http(section.text("url"))
        {
            section.error(report, "url", reason);
        }
        section.require(report, "query");
        http_options::check(section, report);
    },
};

pub(super) static UYUNI: Schema = Schema {
    groups: &[
        &[text("server").always(), text("username").always(), secret("password").always()],
        http_options::FIELDS,
        &[text("entitlement").or("monitoring_entitled"), text("separator").or(","), refresh(60)],
    ],
    check: |section, report| {
        if section.require(report, "server")
            && let Err(reason) = address::parse(section.text("server"))
        {
            section.error(report, "server", reason);
        }
        section.require(report, "username");
        section.require(report, "password");
        http_options::check(section, report);
    },
};
