// Live sound: a microphone, or the sound of a tab or the whole system. Knows nothing of sessions.

import { Problem } from "./problems.js";

// Whisper was trained on sound as it is; echo cancelling and the like take parts of words away.
const AS_IT_IS = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
const PATIENCE_MS = 1000; // for the worklet's last portion

const canListen = () => Boolean(navigator.mediaDevices?.getUserMedia && globalThis.AudioWorkletNode);

/** Firefox and Safari share pictures without sound; they do not know this constraint. */
export function canShareSound() {
  const devices = navigator.mediaDevices;
  const known = devices?.getSupportedConstraints?.() ?? {};
  return Boolean(devices?.getDisplayMedia && known.suppressLocalAudioPlayback && globalThis.AudioWorkletNode);
}

/** Ask for a microphone; "" is the browser's default, and what comes where the one asked for is not there. `channels`:
 * how many it is to have. Throws `Problem`. */
export async function askForMicrophone(device, channels = 1) {
  if (!globalThis.isSecureContext) throw new Problem("insecure");
  if (!canListen()) throw new Problem("unsupported");
  const wanted = { ...(device && { deviceId: device }), ...(channels > 1 && { channelCount: channels }) };
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: { ...AS_IT_IS, ...wanted } });
  } catch (error) {
    throw new Problem(KINDS[error.name] ?? "microphone", error.message);
  }
  const found = stream.getAudioTracks()[0].getSettings().channelCount ?? 1;
  if (found >= channels) return stream;
  stream.getTracks().forEach((track) => track.stop());
  throw new Problem("few-channels", `It has ${found}; the settings ask for ${channels}. Choose another microphone, or fewer channels in the settings.`);
}

const KINDS = {
  NotAllowedError: "denied",
  SecurityError: "denied",
  NotFoundError: "no-microphone",
  NotReadableError: "microphone-busy",
};

/** Ask for the sound of a tab, a window or the system. Throws `Problem`. */
export async function askForSharedSound() {
  let stream;
  try {
    stream = await navigator.mediaDevices.getDisplayMedia({
      video: true, // browsers offer no sound without a picture
      audio: { ...AS_IT_IS, suppressLocalAudioPlayback: false },
      systemAudio: "include",
    });
  } catch (error) {
    throw new Problem(error.name === "NotAllowedError" ? "share-denied" : "share-failed", error.message);
  }
  if (!stream.getAudioTracks().length) {
    stream.getTracks().forEach((track) => track.stop());
    throw new Problem("share-silent");
  }
  return stream;
}

/** The microphones there are; names are only known once one was allowed. */
export async function listMicrophones() {
  const devices = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
  return devices.filter((device) => device.kind === "audioinput" && device.deviceId);
}

/** Takes the sound of a stream at 16 kHz until `stop`, in portions: an Int16Array for each of the channels that are kept
 * apart, or one for their mean. */
export class Capture {
  #stopped = false;

  constructor(stream, { apart = 1, onSamples, onEnd }) {
    Object.assign(this, { stream, apart, onSamples });
    for (const track of stream.getAudioTracks()) track.addEventListener("ended", onEnd);
  }

  async start() {
    this.context = new AudioContext();
    this.context.addEventListener("statechange", () => this.wake());
    await this.context.audioWorklet.addModule(new URL("./worklet.js", import.meta.url)).catch(({ message }) => {
      if (!this.#stopped) throw new Problem("unreachable", message); // the first recording loads it from the server
    });
    if (this.#stopped) return;
    const { apart } = this;
    const discrete = { channelCount: apart, channelCountMode: "explicit", channelInterpretation: "discrete" };
    const options = { numberOfOutputs: 0, processorOptions: { apart }, ...(apart > 1 && discrete) };
    this.node = new AudioWorkletNode(this.context, "capture", options);
    this.node.port.onmessage = ({ data }) => (data[0].length ? this.onSamples(data) : this.drained?.());
    this.context.createMediaStreamSource(this.stream).connect(this.node);
    await this.context.resume();
  }

  /** A call, or the page in the background, may have put the sound to sleep. */
  wake() {
    if (this.context && !/^(running|closed)$/.test(this.context.state)) this.context.resume().catch(() => {});
  }

  /** Returns when the last sample was given. */
  async stop() {
    this.#stopped = true;
    if (this.node && this.context.state === "running") {
      const drained = new Promise((resolve) => (this.drained = resolve));
      this.node.port.postMessage("finish");
      await Promise.race([drained, new Promise((resolve) => setTimeout(resolve, PATIENCE_MS))]);
    }
    this.stream.getTracks().forEach((track) => track.stop());
    if (this.context?.state !== "closed") await this.context?.close();
  }
}

/** Keep the screen on; gives what to `release`, or null where the browser does not (the battery may be low). */
export async function keepAwake() {
  return (await navigator.wakeLock?.request("screen").catch(() => null)) ?? null;
}
