# For a tap of one's own: `brew install OWNER/tap/whispertide`. Packages come as wheels, since some have no sources that
# Homebrew could build (ONNX Runtime), so this is not for homebrew-core. `make dist` prints the checksum.
class Whispertide < Formula
  desc "Live speech-to-text with Whisper models on your own machine"
  homepage "https://github.com/whispertide/whispertide"
  url "https://github.com/whispertide/whispertide/releases/download/v0.1.0/whispertide-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on "python@3.13"

  on_linux do
    depends_on "portaudio"
  end

  def install
    system Formula["python@3.13"].opt_bin/"python3.13", "-m", "venv", libexec
    system libexec/"bin/python", "-m", "pip", "install", "#{buildpath}[server]"
    bin.install_symlink libexec/"bin/whispertide"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/whispertide --version")
    demo = Dir[libexec/"lib/python*/site-packages/whispertide/bundled/audio/demo.flac"].first
    assert_match(/\w+ \w+/, shell_output("#{bin}/whispertide --offline transcribe --model nano.en #{demo}"))
  end
end
