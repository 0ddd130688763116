//! From addresses to functions, files and lines.
