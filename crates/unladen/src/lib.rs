//! The library a program links: instrument, collect, export.
