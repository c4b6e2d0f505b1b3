//! A TCP connection that knows when its bytes left and arrived, and HTTP/1.1 over it.

pub mod blocking;
pub mod chunked;
pub mod connection;
pub mod hyper_io;
pub mod idle_timeout;
pub mod read_buffer;
pub mod reader;
pub mod records;
pub mod rhythm;
pub mod stamped;
pub mod stamps;
#[cfg(test)]
pub mod test_socket;
pub mod tls;
