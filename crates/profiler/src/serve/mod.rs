//! `/debug/pprof/` for any HTTP server.
