# A stand-in for Homebrew: evaluates a formula for a platform, and installs it from an unpacked archive.
#   ruby brew.rb FORMULA on_linux on_intel ARCHIVE_DIRECTORY PREFIX
# It prints the URL and the checksum that the formula has for the platform.
require "fileutils"
require "pathname"

formula, SYSTEM, CPU, from, PREFIX = ARGV

# A place is a directory below the prefix that takes files, under other names if they are given.
class Place
  def initialize(path) = @path = Pathname(PREFIX) / path
  def to_s = @path.to_s

  def install(*files)
    FileUtils.mkdir_p(@path)
    files.flat_map { |f| f.is_a?(Hash) ? f.to_a : [[f, File.basename(f)]] }
         .each { |file, name| FileUtils.cp(file, @path / name) }
  end
end

class Formula
  class << self
    attr_reader :values, :check

    %i[desc homepage version license url sha256].each do |name|
      define_method(name) { |value| (@values ||= {})[name] = value }
    end
    %i[on_macos on_linux].each { |name| define_method(name) { |&block| block.call if name.to_s == SYSTEM } }
    %i[on_intel on_arm].each { |name| define_method(name) { |&block| block.call if name.to_s == CPU } }
    define_method(:test) { |&block| @check = block }
  end

  { bin: "bin", man1: "share/man/man1", man5: "share/man/man5", bash_completion: "etc/bash_completion.d",
    zsh_completion: "share/zsh/site-functions", fish_completion: "share/fish/vendor_completions.d" }
    .each { |name, path| define_method(name) { Place.new(path) } }

  def version = self.class.values[:version]
  def shell_output(command) = `#{command}`
  def assert_match(want, got) = got.include?(want) || abort("no #{want} in #{got}")
end

load formula
one = Capgate.new
Dir.chdir(from) { one.install }
one.instance_eval(&Capgate.check)
puts Capgate.values.values_at(:url, :sha256)
