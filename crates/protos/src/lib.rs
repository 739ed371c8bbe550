//! Protobuf definitions: from what users write to descriptors by which messages are read and written.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use prost_reflect::prost_types::FileDescriptorSet;
use prost_reflect::{DescriptorPool, MessageDescriptor, MethodDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};

/// How the one file of a text is called in messages.
const FILE: &str = "content.proto";

/// Definitions, compiled.
#[derive(Debug, Clone)]
pub struct Definitions(DescriptorPool);

impl Definitions {
    /// Compiles `content`: the text of one `.proto` file, which may import the well-known types, or the base64 of a
    /// `FileDescriptorSet` that has all it needs but these.
    ///
    /// # Errors
    /// What is wrong and where, as `content.proto:LINE:COLUMN: MESSAGE` for a text.
    pub fn compile(content: &str) -> Result<Self, String> {
        // No text of a `.proto` file passes for base64, but for one that says nothing.
        let unbroken: Vec<u8> = content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        match STANDARD.decode(unbroken) {
            Ok(set) if !set.is_empty() => from_set(&set),
            _ => from_text(content),
        }
    }

    /// The method called `method` of the service called `service`, which stands with its package.
    #[must_use]
    pub fn method(&self, service: &str, method: &str) -> Option<MethodDescriptor> {
        self.0.get_service_by_name(service)?.methods().find(|known| known.name() == method)
    }

    /// The message called `name`, which stands with its package.
    #[must_use]
    pub fn message(&self, name: &str) -> Option<MessageDescriptor> {
        self.0.get_message_by_name(name)
    }
}

/// Finds the one file that there is.
struct Text(File);

impl FileResolver for Text {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == FILE { Ok(self.0.clone()) } else { Err(protox::Error::file_not_found(name)) }
    }
}

fn from_text(text: &str) -> Result<Definitions, String> {
    // Only its `Debug` says where.
    let compile = || {
        let mut files = ChainFileResolver::new();
        files.add(Text(File::from_source(FILE, text)?));
        files.add(GoogleFileResolver::new());
        let mut compiler = protox::Compiler::with_file_resolver(files);
        compiler.include_imports(true).open_file(FILE)?;
        Ok(compiler.descriptor_pool())
    };
    compile().map(Definitions).map_err(|error: protox::Error| format!("{error:?}"))
}

fn from_set(set: &[u8]) -> Result<Definitions, String> {
    let set = FileDescriptorSet::decode(set).map_err(|error| error.to_string())?;
    // Compilers leave imports out unless they are told otherwise; the well-known ones need no telling.
    let mut pool = DescriptorPool::global();
    let own = set.file.into_iter().filter(|file| pool.get_file_by_name(file.name()).is_none());
    let own: Vec<_> = own.collect();
    pool.add_file_descriptor_protos(own).map_err(|error| error.to_string())?;
    Ok(Definitions(pool))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETER: &str = "syntax = \"proto3\"; package a.b;
        import \"google/protobuf/struct.proto\";
        message Question { string name = 1; google.protobuf.Struct more = 2; }
        service Greeter { rpc Greet (Question) returns (Question) {} }";

    fn check(definitions: &Definitions) {
        let method = definitions.method("a.b.Greeter", "Greet").expect("defined");
        assert_eq!(method.input().full_name(), "a.b.Question");
        assert!(definitions.method("a.b.Greeter", "Leave").is_none());
        assert!(definitions.method("Greeter", "Greet").is_none());
        assert!(definitions.message("a.b.Question").is_some());
    }

    #[test]
    fn texts_and_descriptor_sets_say_the_same() {
        let compiled = Definitions::compile(GREETER).unwrap();
        check(&compiled);
        let whole = STANDARD.encode(compiled.0.encode_to_vec());
        check(&Definitions::compile(&whole).unwrap());
        let without_imports = FileDescriptorSet {
            file: vec![compiled.0.get_file_by_name(FILE).unwrap().file_descriptor_proto().clone()],
        };
        check(&Definitions::compile(&STANDARD.encode(without_imports.encode_to_vec())).unwrap());
    }

    #[test]
    fn a_package_is_not_needed() {
        let text = "message M {} service S { rpc R (M) returns (M); }";
        assert!(Definitions::compile(text).unwrap().method("S", "R").is_some());
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (content, expected) in [
            ("syntax = \"proto3\"; message M { string a = 1;\n string b = 1; }", "content.proto:2:"),
            ("message M { }\n rpc", "content.proto:2:2: expected"),
            ("import \"other.proto\";", "import 'other.proto' not found"),
            ("service S { rpc R (M) returns (M); }", "'M'"),
            ("AAAA", "failed to decode"),
        ] {
            let error = Definitions::compile(content).unwrap_err();
            assert!(error.contains(expected), "{content}: {error}");
        }
    }
}
