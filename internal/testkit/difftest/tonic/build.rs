// Code from the protos, by way of the FileDescriptorSet that tools/setup makes of them, so that no protoc is needed.
fn main() {
    let set = std::env::var("DESCRIPTORS").expect("DESCRIPTORS names a FileDescriptorSet of proto/selu");
    println!("cargo:rerun-if-changed={set}");
    println!("cargo:rerun-if-env-changed=DESCRIPTORS");
    let mut config = prost_build::Config::new();
    config.skip_protoc_run().file_descriptor_set_path(set);
    tonic_prost_build::configure()
        .compile_with_config(config, &[] as &[&str], &[])
        .expect("code from the protos");
}
