//! Tries of a crowd, from nap-load's CSV.

/// When visitors were served, in seconds of the crowd. From nap-load's CSV.
pub fn served_at(tries: &str) -> impl Iterator<Item = f64> {
    tries.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let [begun, reason, response] = [cells.first()?, cells.get(6)?, cells.get(7)?];
        let end = begun.parse::<f64>().ok()? + response.parse::<f64>().ok()?;
        (*reason == "served").then_some(end)
    })
}
