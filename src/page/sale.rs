//! [`sells`]: who is sold a ticket.
//!
//! A ticket is for somebody who comes back: a navigation or an API call. An image, a style sheet
//! or a prefetch does not; a page of thirty images would book thirty places that nobody uses.
//! Browsers say what a request is for in Sec-Fetch-Dest and Sec-Purpose, but only to trustworthy
//! origins (https, localhost); over plain http Accept alone tells an image.

/// Is this refused request sold a ticket? Each header empty where it is absent; `purpose` is
/// Sec-Purpose, else Purpose.
pub fn sells(fetch_dest: &[u8], purpose: &[u8], method: &[u8], accept: &[u8]) -> bool {
    if ahead_of_time(purpose) {
        return false;
    }
    match fetch_dest {
        b"" => method != b"GET" || !asks_for_a_part(accept),
        dest => [
            &b"document"[..],
            b"empty",
            b"iframe",
            b"frame",
            b"fencedframe",
        ]
        .into_iter()
        .any(|sold| dest.eq_ignore_ascii_case(sold)),
    }
}

/// A prefetch, prerender or preview: nobody looks at it yet, perhaps nobody ever will.
fn ahead_of_time(purpose: &[u8]) -> bool {
    purpose.split(|b| b";, ".contains(b)).any(|word| {
        [&b"prefetch"[..], b"prerender", b"preview"]
            .into_iter()
            .any(|early| word.eq_ignore_ascii_case(early))
    })
}

/// The first thing Accept names is a part of a page, as in browsers' requests for parts.
fn asks_for_a_part(accept: &[u8]) -> bool {
    let first = accept.trim_ascii_start();
    [&b"image/"[..], b"text/css", b"font/", b"audio/", b"video/"]
        .into_iter()
        .any(|part| {
            first
                .get(..part.len())
                .is_some_and(|head| head.eq_ignore_ascii_case(part))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn navigations_and_api_calls_are_sold_tickets_and_parts_of_pages_are_not() {
        const PAGE: &str = "text/html,application/xhtml+xml,*/*;q=0.8";
        const IMAGE: &str = "image/avif,image/webp,image/*,*/*;q=0.8";
        let cases = [
            ("", "", "GET", "", true),
            ("document", "", "GET", PAGE, true),
            ("Document", "", "POST", PAGE, true),
            ("iframe", "", "GET", PAGE, true),
            ("empty", "", "GET", "application/json", true),
            ("empty", "", "POST", "*/*", true),
            ("empty", "", "GET", "image/png", true),
            ("image", "", "GET", IMAGE, false),
            ("style", "", "GET", "text/css,*/*;q=0.1", false),
            ("script", "", "GET", "*/*", false),
            ("font", "", "GET", "*/*", false),
            ("video", "", "GET", "*/*", false),
            ("serviceworker", "", "GET", "*/*", false),
            ("something-new", "", "GET", "*/*", false),
            ("document", "prefetch", "GET", PAGE, false),
            ("document", "prefetch;prerender", "GET", PAGE, false),
            (
                "document",
                "Prefetch; anonymous-client-ip",
                "GET",
                PAGE,
                false,
            ),
            ("", "preview", "GET", PAGE, false),
            ("document", "prefetched", "GET", PAGE, true),
            ("", "", "GET", "*/*", true),
            ("", "", "GET", IMAGE, false),
            ("", "", "GET", " Text/CSS,*/*;q=0.1", false),
            ("", "", "GET", "text/plain", true),
            ("", "", "POST", "image/png", true),
            ("", "", "HEAD", "", true),
        ];
        for (dest, purpose, method, accept, sold) in cases {
            let told = sells(
                dest.as_bytes(),
                purpose.as_bytes(),
                method.as_bytes(),
                accept.as_bytes(),
            );
            assert_eq!(told, sold, "{dest:?} {purpose:?} {method} {accept:?}");
        }
    }
}
