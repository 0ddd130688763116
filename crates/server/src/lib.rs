//! The binary unladen: scrape, keep, query, look.
