//! History in, verdict out.
