//! A request over a connection that may be kept, and its answer: read to its end and no further.

use std::io::{self, Read, Write};

/// Asks for a path, with additional headers, each with the end of its line. Returns the whole answer, head
/// and body.
pub fn exchange(stream: &mut (impl Read + Write), path: &str, headers: &str) -> Vec<u8> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("httpd reads");
    read_answer(stream).expect("an answer within the time-out")
}

/// Reads one answer: of the length that its head says, in chunks, or until the connection closes.
pub fn read_answer(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut answer, mut part) = (Vec::new(), [0; 16384]);
    let mut whole = None;
    while whole.is_none_or(|whole| answer.len() < whole) {
        match stream.read(&mut part)? {
            0 if whole.is_none() && !answer.is_empty() => break,
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => answer.extend_from_slice(&part[..n]),
        }
        whole = whole.or_else(|| length(&answer));
    }
    Ok(answer)
}

/// Length of the answer that begins like this; None: not known, or not yet. Chunks have no trailers here.
fn length(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    if value("transfer-encoding:").is_some_and(|how| how.trim() == "chunked") {
        return answer.ends_with(b"\r\n0\r\n\r\n").then_some(answer.len());
    }
    Some(head + 4 + value("content-length:")?.trim().parse::<usize>().ok()?)
}
