//! [`Commands`]: what is said to the store in one exchange, and [`Answers`]: what it says to that, in the same order.
//!
//! Each part adds commands of its own, and later takes as many answers.

use std::sync::Arc;

use redis::{Cmd, FromRedisValue, Pipeline, ToRedisArgs, Value, pipe};

use crate::line::{Failure, good, read};

/// A script, known to the store by its hash from the first time on.
#[derive(Debug)]
pub struct Script {
    text: String,
    hash: String,
}

impl Script {
    /// Of this text.
    pub fn new(text: impl Into<String>) -> Arc<Script> {
        let text = text.into();
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Arc::new(Script { text, hash })
    }
}

/// A command, or a script with its keys.
#[derive(Debug)]
pub struct Command {
    /// The script, and how many of the words are its keys.
    script: Option<(Arc<Script>, usize)>,
    words: Vec<Vec<u8>>,
}

impl Command {
    /// One more argument.
    pub fn arg(&mut self, word: impl ToRedisArgs) -> &mut Command {
        self.args([word])
    }

    /// More of them.
    pub fn args(&mut self, words: impl IntoIterator<Item: ToRedisArgs>) -> &mut Command {
        for word in words {
            self.words.extend(word.to_redis_args());
        }
        self
    }

    /// As it is sent: a script by its text, if that is `whole`.
    fn packed(&self, whole: bool) -> Cmd {
        let mut packed = Cmd::new();
        if let Some((script, keys)) = &self.script {
            match whole {
                true => packed.arg("EVAL").arg(&script.text),
                false => packed.arg("EVALSHA").arg(&script.hash),
            };
            packed.arg(*keys);
        }
        packed.arg(&self.words);
        packed
    }
}

/// All commands of an exchange.
#[derive(Debug, Default)]
pub struct Commands(Vec<Command>);

impl Commands {
    /// One more; its arguments follow.
    pub fn add(&mut self, name: &str) -> &mut Command {
        self.push(Command {
            script: None,
            words: vec![name.into()],
        })
    }

    /// A script with these keys; its arguments follow.
    pub fn call(&mut self, script: &Arc<Script>, keys: &[&str]) -> &mut Command {
        self.push(Command {
            script: Some((Arc::clone(script), keys.len())),
            words: keys.iter().map(|key| key.as_bytes().to_vec()).collect(),
        })
    }

    fn push(&mut self, command: Command) -> &mut Command {
        self.0.push(command);
        self.0.last_mut().expect("it has just been added")
    }

    /// There is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As they are sent; scripts by their hash.
    pub fn packed(&self) -> Pipeline {
        let mut all = pipe();
        for command in &self.0 {
            all.add_command(command.packed(false));
        }
        all
    }

    /// Which of them are scripts that the store does not know, and the same with their text. Plain commands behind them
    /// read what they write, and are among them.
    pub fn unknown(&self, answers: &[Value]) -> (Vec<usize>, Pipeline) {
        let (mut which, mut all) = (Vec::new(), pipe());
        for (at, (command, answer)) in self.0.iter().zip(answers).enumerate() {
            let again = match (&command.script, answer) {
                (Some(_), Value::ServerError(error)) => error.code() == "NOSCRIPT",
                (Some(_), _) => false,
                (None, _) => !which.is_empty(),
            };
            if again {
                which.push(at);
                all.add_command(command.packed(true));
            }
        }
        (which, all)
    }
}

/// The answers that have not been taken yet.
#[derive(Debug)]
pub struct Answers(std::vec::IntoIter<Value>);

impl Answers {
    /// These.
    pub fn new(all: Vec<Value>) -> Answers {
        Answers(all.into_iter())
    }

    /// The next one, as it was meant.
    pub fn take(&mut self) -> Result<Value, Failure> {
        good(self.0.next().unwrap_or(Value::Nil))
    }

    /// The same, of this form.
    pub fn read<T: FromRedisValue>(&mut self) -> Result<T, Failure> {
        self.take().and_then(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scripts_that_are_not_known_are_sent_as_text() {
        let script = Script::new("return ARGV[1]");
        let mut commands = Commands::default();
        commands.add("TIME");
        commands.call(&script, &["nap:a"]).arg(7).args(["x", "y"]);
        let packed = commands.packed().get_packed_pipeline();
        let said = String::from_utf8(packed).expect("texts");
        assert!(said.contains("EVALSHA\r\n$40\r\n"), "{said}");
        assert!(said.ends_with("$1\r\n1\r\n$5\r\nnap:a\r\n$1\r\n7\r\n$1\r\nx\r\n$1\r\ny\r\n"));
        let error = redis::parse_redis_value(b"-NOSCRIPT No matching script.\r\n");
        let error = error.expect("it is one");
        let (which, again) = commands.unknown(&[error.clone(), Value::Nil]);
        assert!(which.is_empty() && again.is_empty());
        let (which, again) = commands.unknown(&[Value::Nil, error.clone()]);
        assert_eq!(which, [1]);
        let said = String::from_utf8(again.get_packed_pipeline()).expect("texts");
        assert!(said.contains("EVAL\r\n$14\r\nreturn ARGV[1]"), "{said}");
        commands.add("HGETALL");
        let (which, _) = commands.unknown(&[Value::Nil, error, Value::Nil]);
        assert_eq!(which, [1, 2], "it reads what the script writes");
    }
}
