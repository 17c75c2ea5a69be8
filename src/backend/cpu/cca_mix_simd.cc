// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/cca_mix_simd.h"

#include "backend/cpu/simd_loops.h"

namespace zaya::ZAYA_SIMD_NAMESPACE {

extern const CcaMixSimd kCcaMixSimd;

namespace {

// What one token's heads share.
template <class Element>
struct Token {
  const Element* z;
  const Element* qk0;
  const float* cosines;
  const float* sines;
};

template <class Element>
ZAYA_INLINE Token<Element> token_at(const QkMixRows& in, Index t) {
  const float* turn = in.rotary + in.positions[t] * 2 * in.half;
  return {static_cast<const Element*>(in.z.data) + t * in.z.stride,
          static_cast<const Element*>(in.qk0.data) + t * in.qk0.stride, turn, turn + in.half};
}

ZAYA_INLINE float root(float x) { return __builtin_sqrtf(x); }
ZAYA_INLINE float clamped(float length, float eps) { return length < eps ? eps : length; }

// head = z + (q0 + k0) / 2.
template <class Element>
ZAYA_INLINE void mix_query(const Element* z, const Element* q0, const Element* k0, Index channels,
                           float* head) {
  for_lanes(0, channels, [&](Index c, auto lanes) {
    const f32x16 mean = (load(q0 + c, lanes) + load(k0 + c, lanes)) * 0.5f;
    store(head + c, load(z + c, lanes) + mean, lanes);
  });
}

// head = z + the mean over the group of (q0 + k0) / 2; q0 is the group's first head.
template <class Element>
ZAYA_INLINE void mix_key(const Element* z, const Element* q0, const Element* k0, Index group,
                         Index channels, float* head) {
  const float share = 0.5f / static_cast<float>(group);
  for_lanes(0, channels, [&](Index c, auto lanes) {
    const f32x16 key = load(k0 + c, lanes);
    f32x16 sum = zeros();
    for (Index h = 0; h < group; ++h) sum += load(q0 + h * channels + c, lanes) + key;
    store(head + c, load(z + c, lanes) + sum * share, lanes);
  });
}

ZAYA_INLINE float dot(const float* a, const float* b, Index count) {
  return sum_over(count,
                  [&](Index c, auto lanes) { return load(a + c, lanes) * load(b + c, lanes); });
}

// out = factor * head, its first channels turned.
template <class Element>
ZAYA_INLINE void write_turned(const float* head, float factor, const Token<Element>& token,
                              Index half, Index channels, Element* out) {
  for_lanes(0, half, [&](Index c, auto lanes) {
    const f32x16 a = load(head + c, lanes) * factor, b = load(head + half + c, lanes) * factor;
    const f32x16 cosine = load(token.cosines + c, lanes), sine = load(token.sines + c, lanes);
    store(out + c, a * cosine - b * sine, lanes);
    store(out + half + c, b * cosine + a * sine, lanes);
  });
  for_lanes(2 * half, channels,
            [&](Index c, auto lanes) { store(out + c, load(head + c, lanes) * factor, lanes); });
}

template <class Element>
void forward_of(const QkMixForward& a, Index begin, Index end, float* head) {
  const QkMixRows& in = a.in;
  const Index channels = in.channels, group = in.query_heads / in.key_heads;
  const Index keys = in.query_heads * channels;
  const float size = root(static_cast<float>(channels));
  for (Index t = begin; t < end; ++t) {
    const Token<Element> token = token_at<Element>(in, t);
    float* norm = a.norm + t * (in.query_heads + in.key_heads);
    Element* q = static_cast<Element*>(a.q) + t * keys;
    Element* k = static_cast<Element*>(a.k) + t * in.key_heads * channels;
    for (Index h = 0; h < in.query_heads; ++h) {
      const Index at = h * channels, key = keys + h / group * channels;
      mix_query(token.z + at, token.qk0 + at, token.qk0 + key, channels, head);
      norm[h] = root(dot(head, head, channels));
      write_turned(head, size / clamped(norm[h], in.eps), token, in.half, channels, q + at);
    }
    for (Index g = 0; g < in.key_heads; ++g) {
      const Index at = keys + g * channels;
      mix_key(token.z + at, token.qk0 + g * group * channels, token.qk0 + at, group, channels,
              head);
      const float length = root(dot(head, head, channels));
      norm[in.query_heads + g] = length;
      const float factor = size / clamped(length, in.eps) * in.temp[g];
      write_turned(head, factor, token, in.half, channels, k + g * channels);
    }
  }
}

void forward(const QkMixForward& args, Index begin, Index end, float* scratch) {
  if (args.in.z.is_bf16) {
    forward_of<std::uint16_t>(args, begin, end, scratch);
  } else {
    forward_of<float>(args, begin, end, scratch);
  }
}

// Turns a gradient back: row = gradient of the head before the rotation.
template <class Element>
ZAYA_INLINE void read_turned_back(const Element* from, const Token<Element>& token, Index half,
                                  Index channels, float* row) {
  for_lanes(0, half, [&](Index c, auto lanes) {
    const f32x16 a = load(from + c, lanes), b = load(from + half + c, lanes);
    const f32x16 cosine = load(token.cosines + c, lanes), sine = load(token.sines + c, lanes);
    store(row + c, a * cosine + b * sine, lanes);
    store(row + half + c, b * cosine - a * sine, lanes);
  });
  for_lanes(2 * half, channels,
            [&](Index c, auto lanes) { store(row + c, load(from + c, lanes), lanes); });
}

// Replaces row, the gradient of head * factor, by that of head, also written to dz; the factor
// contains 1 / max(length, eps). Returns the sum of head * row.
template <class Element>
ZAYA_INLINE float normalize_backward(const float* head, float length, float eps, float factor,
                                     Index channels, float* row, Element* dz) {
  const float along = dot(head, row, channels);
  const float slope = length < eps ? 0.0f : along / (length * length);
  for_lanes(0, channels, [&](Index c, auto lanes) {
    const f32x16 d = (load(row + c, lanes) - load(head + c, lanes) * slope) * factor;
    store(row + c, d, lanes);
    store(dz + c, d, lanes);
  });
  return along;
}

// The heads of one token that share key head g.
template <class Element>
ZAYA_INLINE void group_backward(const QkMixBackward& a, Index t, Index g, float* scratch,
                                double* dtemp) {
  const QkMixRows& in = a.in;
  const Index channels = in.channels, group = in.query_heads / in.key_heads;
  const Index keys = in.query_heads * channels, at_key = keys + g * channels;
  const float size = root(static_cast<float>(channels));
  const float* norm = a.norm + t * (in.query_heads + in.key_heads);
  const Token<Element> token = token_at<Element>(in, t);
  const Element* dq = static_cast<const Element*>(a.dq) + t * keys;
  const Element* dk = static_cast<const Element*>(a.dk) + (t * in.key_heads + g) * channels;
  Element* dz = static_cast<Element*>(a.dz.data) + t * a.dz.stride;
  Element* dqk0 = static_cast<Element*>(a.dqk0.data) + t * a.dqk0.stride;
  float* head = scratch;
  float* row = head + channels;
  float* from_key = row + channels;      // what the key's gradient gives to each head's mean
  float* key_sum = from_key + channels;  // gradient of k0

  const Element* q0 = token.qk0 + g * group * channels;
  const Element* k0 = token.qk0 + at_key;
  mix_key(token.z + at_key, q0, k0, group, channels, head);
  read_turned_back(dk, token, in.half, channels, from_key);
  const float length = norm[in.query_heads + g];
  const float scale = size / clamped(length, in.eps);
  const float along =
      normalize_backward(head, length, in.eps, scale * in.temp[g], channels, from_key, dz + at_key);
  *dtemp += static_cast<double>(along) * static_cast<double>(scale);
  const float share = 1.0f / static_cast<float>(group);
  for_lanes(0, channels, [&](Index c, auto lanes) {
    store(from_key + c, load(from_key + c, lanes) * share, lanes);
    store(key_sum + c, zeros(), lanes);
  });
  for (Index h = g * group; h < (g + 1) * group; ++h) {
    const Index at = h * channels;
    mix_query(token.z + at, token.qk0 + at, k0, channels, head);
    read_turned_back(dq + at, token, in.half, channels, row);
    normalize_backward(head, norm[h], in.eps, size / clamped(norm[h], in.eps), channels, row,
                       dz + at);
    for_lanes(0, channels, [&](Index c, auto lanes) {
      const f32x16 d = (load(row + c, lanes) + load(from_key + c, lanes)) * 0.5f;
      store(dqk0 + at + c, d, lanes);
      store(key_sum + c, load(key_sum + c, lanes) + d, lanes);
    });
  }
  for_lanes(0, channels, [&](Index c, auto lanes) {
    store(dqk0 + at_key + c, load(key_sum + c, lanes), lanes);
  });
}

void backward(const QkMixBackward& args, Index begin, Index end, float* scratch, double* dtemp) {
  const Index key_heads = args.in.key_heads;
  for (Index g = 0; g < key_heads; ++g) dtemp[g] = 0;
  for (Index t = begin; t < end; ++t) {
    for (Index g = 0; g < key_heads; ++g) {
      if (args.in.z.is_bf16) {
        group_backward<std::uint16_t>(args, t, g, scratch, dtemp + g);
      } else {
        group_backward<float>(args, t, g, scratch, dtemp + g);
      }
    }
  }
}

}  // namespace

const CcaMixSimd kCcaMixSimd = {.forward = forward, .backward = backward};

}  // namespace zaya::ZAYA_SIMD_NAMESPACE
