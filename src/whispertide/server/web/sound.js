// What sound is here: 16 kHz, mono, 16-bit. The page and the audio worklet share it, so it knows nothing of either.

export const RATE = 16000;

/** Channels of equal length -> their mean. */
export function mono(channels) {
  if (channels.length === 1) return channels[0];
  return channels[0].map((_, index) => channels.reduce((sum, channel) => sum + channel[index], 0) / channels.length);
}

/** A sample from -1 to 1 -> one of 16 bits. */
export const toInt16 = (sample) => Math.round(Math.max(-1, Math.min(1, sample)) * 32767);
