#!/usr/bin/env python3
"""Records TensorFlow's results for the ops of images.

  record_image_ops.py > image_ops.txt     (needs TensorFlow; seeded)

src/ops/testing/recorded_ops_test.cc reads it; the format: op_cases.py.
"""

import itertools

import numpy as np

from op_cases import case, tf, types

R = np.random.RandomState(20180612)
F = np.float32


def u(*shape, dtype=np.float32, low=-1, high=1):
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return R.randint(max(info.min, -200), min(info.max, 200) + 1,
                         shape).astype(dtype)
    return (low + (high - low) * R.random_sample(shape)).round(3).astype(dtype)


def i32(*v):
    return np.array(v, np.int32)


ALIGN = [dict(), dict(half_pixel_centers=True), dict(align_corners=True)]
BOTH = dict(half_pixel_centers=True, align_corners=True)

# ---- Resizing
for op in ("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor",
           "ResizeArea"):
    for dtype in types(op):
        case(op, [("images", u(1, 3, 4, 2, dtype=dtype)),
                  ("size", i32(5, 3))])
    attrs = ALIGN if op != "ResizeArea" else [ALIGN[0], ALIGN[2]]
    for align, shape, size in itertools.product(
            attrs, [(2, 4, 5, 3), (1, 1, 3, 1), (1, 6, 2, 9)],
            [(7, 3), (4, 5), (1, 1), (2, 10), (3, 8)]):
        case(op, [("images", u(*shape)), ("size", i32(*size))], **align)
    if op != "ResizeArea":
        case(op, [("images", u(1, 2, 2, 1)), ("size", i32(3, 3))], **BOTH)
    for shape, size in [((2, 3, 4), i32(2, 2)), ((1, 0, 3, 2), i32(2, 2)),
                        ((1, 2, 3, 0), i32(2, 2)), ((1, 2, 3, 1), i32(2)),
                        ((1, 2, 3, 1), i32(2, 0)), ((1, 2, 3, 1), i32(-1, 2)),
                        ((0, 2, 3, 1), i32(4, 2))]:
        case(op, [("images", np.zeros(shape, F)), ("size", size)])
for op in ("ResizeBilinearGrad", "ResizeBicubicGrad"):
    for dtype in types(op):
        case(op, [("grads", u(1, 5, 3, 2)),
                  ("original_image", u(1, 3, 4, 2, dtype=dtype))])
    for align, shape, size in itertools.product(
            ALIGN, [(2, 4, 5, 3), (1, 1, 3, 1)], [(7, 3), (2, 10)]):
        case(op, [("grads", u(shape[0], *size, shape[3])),
                  ("original_image", u(*shape))], **align)
    case(op, [("grads", u(1, 2, 2)), ("original_image", u(1, 2, 2, 1))])
    case(op, [("grads", u(1, 0, 2, 1)), ("original_image", u(1, 2, 2, 1))])
op = "ResizeNearestNeighborGrad"
for dtype in types(op):
    case(op, [("grads", u(1, 5, 3, 2, dtype=dtype)), ("size", i32(3, 4))])
for align, shape, size in itertools.product(
        ALIGN, [(2, 4, 5, 3), (1, 1, 3, 1)], [(7, 3), (2, 10)]):
    case(op, [("grads", u(shape[0], *size, shape[3])),
              ("size", i32(*shape[1:3]))], **align)

FILTERS = ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle",
           "keyscubic", "mitchellcubic"]
for kernel, antialias in itertools.product(FILTERS, (True, False)):
    for size, scale, shift in [((3, 9), (0.5, 1.6), (0, 0)),
                               ((8, 4), (1.25, 0.7), (0.5, -1.5))]:
        case("ScaleAndTranslate",
             [("images", u(1, 6, 5, 2)), ("size", i32(*size)),
              ("scale", np.array(scale, F)),
              ("translation", np.array(shift, F))],
             kernel_type=kernel, antialias=antialias)
        case("ScaleAndTranslateGrad",
             [("grads", u(1, *size, 2)), ("original_image", u(1, 6, 5, 2)),
              ("scale", np.array(scale, F)),
              ("translation", np.array(shift, F))],
             kernel_type=kernel, antialias=antialias)
for dtype in types("ScaleAndTranslate"):
    case("ScaleAndTranslate",
         [("images", u(2, 3, 4, 3, dtype=dtype)), ("size", i32(5, 3)),
          ("scale", np.array([1.5, 0.75], F)),
          ("translation", np.array([0, 0.25], F))])
for kernel, scale in [("bogus", (1, 1)), ("box", (0, 1)), ("box", (1, -2))]:
    case("ScaleAndTranslate",
         [("images", u(1, 3, 4, 1)), ("size", i32(2, 2)),
          ("scale", np.array(scale, F)), ("translation", np.zeros(2, F))],
         kernel_type=kernel)

# ---- Crops
BOXES = np.array([[0, 0, 1, 1], [.12, .17, .83, .71], [.9, .8, .1, .2],
                  [-.3, .4, .6, 1.5], [.5, .5, .5, .5]], F)
for dtype in types("CropAndResize"):
    case("CropAndResize", [("image", u(2, 4, 5, 2, dtype=dtype)),
                           ("boxes", BOXES[1:3]), ("box_ind", i32(1, 0)),
                           ("crop_size", i32(3, 2))])
    case("CropAndResizeGradBoxes",
         [("grads", u(2, 3, 2, 2)), ("image", u(2, 4, 5, 2, dtype=dtype)),
          ("boxes", BOXES[1:3]), ("box_ind", i32(1, 0))])
for method, size in itertools.product(("bilinear", "nearest"),
                                      [(3, 4), (1, 2), (2, 1), (7, 7)]):
    image, index = u(2, 4, 5, 3), i32(0, 1, 1, 0, 1)
    case("CropAndResize", [("image", image), ("boxes", BOXES),
                           ("box_ind", index), ("crop_size", i32(*size))],
         method=method, extrapolation_value=-2.5)
    grads = u(5, *size, 3)
    for dtype in types("CropAndResizeGradImage"):
        case("CropAndResizeGradImage",
             [("grads", grads), ("boxes", BOXES), ("box_ind", index),
              ("image_size", i32(2, 4, 5, 3))], method=method,
             T=tf.as_dtype(dtype))
    if method == "bilinear":
        case("CropAndResizeGradBoxes", [("grads", grads), ("image", image),
                                        ("boxes", BOXES), ("box_ind", index)])
for boxes, index, size in [
        (BOXES, i32(0, 1, 2, 0, 1), i32(2, 2)),
        (BOXES, i32(0, 1), i32(2, 2)), (BOXES[:, :3], i32(*[0] * 5), i32(2, 2)),
        (BOXES, i32(0, 0, 0, 0, -1), i32(2, 2)),
        (BOXES, i32(*[0] * 5), i32(2, 0)), (BOXES * np.nan, i32(*[0] * 5),
                                            i32(2, 2)),
        (np.zeros((0, 4), F), np.zeros(0, np.int32), i32(2, 2))]:
    case("CropAndResize", [("image", u(2, 3, 3, 1)), ("boxes", boxes),
                           ("box_ind", index), ("crop_size", size)])

# ---- Projective transforms
T1 = np.array([[1, 0, 1.3, 0, 1, -.6, 0, 0]], F)
T2 = np.array([[.8, .3, .2, -.3, .8, 1, .01, -.02],
               [-1, 0, 4, 0, 1, 0, 0, 0]], F)
for mode, fill in itertools.product(
        ("NEAREST", "BILINEAR"), ("CONSTANT", "REFLECT", "WRAP", "NEAREST")):
    for t, size in [(T1, (5, 6)), (T2, (4, 5)), (T2 * F(3), (9, 11))]:
        case("ImageProjectiveTransformV2",
             [("images", u(2, 4, 5, 3)), ("transforms", t),
              ("output_shape", i32(*size))], interpolation=mode,
             fill_mode=fill)
for dtype in types("ImageProjectiveTransformV2", "dtype"):
    case("ImageProjectiveTransformV2",
         [("images", u(2, 4, 5, 2, dtype=dtype)), ("transforms", T2),
          ("output_shape", i32(4, 4))], interpolation="BILINEAR")
for mode, fill, t in [("NEAREST", "CONSTANT", T1[:, :7]),
                      ("NEAREST", "CONSTANT", np.zeros((3, 8), F))]:
    case("ImageProjectiveTransformV2",
         [("images", u(2, 3, 3, 1)), ("transforms", t),
          ("output_shape", i32(2, 2))], interpolation=mode, fill_mode=fill)

# ---- Glimpses: those within the image, and those that are filled with zeros.
OFFSETS = np.array([[0, 0], [.3, -.6], [1.2, -1.5]], F)
for centered, normalized in itertools.product((True, False), repeat=2):
    for size, scale in [((2, 3), 1), ((3, 2), 2.7), ((6, 7), 1)]:
        case("ExtractGlimpse",
             [("input", u(3, 4, 5, 2)), ("size", i32(*size)),
              ("offsets", OFFSETS * F(scale))], centered=centered,
             normalized=normalized, uniform_noise=False, noise="zero")
case("ExtractGlimpse", [("input", u(1, 4, 5, 2)), ("size", i32(2, 2)),
                        ("offsets", np.zeros((1, 2), F))])
case("ExtractGlimpse", [("input", u(1, 4, 5, 2)), ("size", i32(2, 2)),
                        ("offsets", np.zeros((1, 2), F))], noise="zero")
case("ExtractGlimpse", [("input", u(1, 4, 5, 2)), ("size", i32(2, 2)),
                        ("offsets", np.zeros((2, 2), F))])
case("ExtractGlimpse", [("input", u(1, 4, 5, 2)), ("size", i32(0, 2)),
                        ("offsets", np.zeros((1, 2), F))])

# ---- Colours
EDGES = np.array([[0, 0, 0], [1, 1, 1], [.5, .5, .2], [.5, .2, .5],
                  [.2, .5, .5], [1, 0, 0], [0, 1, 0], [0, 0, 1]], F)
for op in ("RGBToHSV", "HSVToRGB"):
    for dtype in types(op):
        case(op, [("images", u(2, 3, 3, dtype=dtype, low=0, high=1))])
    case(op, [("images", EDGES)])
    case(op, [("images", u(3, low=0, high=1))])
    case(op, [("images", np.zeros((0, 3), F))])
    case(op, [("images", u(2, 4))])
    case(op, [("images", np.array(F(1)))])
for delta in (0, .3, -.45, 1, -2.25, 3.5):
    case("AdjustHue", [("images", u(2, 3, 3, low=0, high=1)),
                       ("delta", np.array(F(delta)))])
for scale in (0, .5, 1, 1.7, 40, -1):
    case("AdjustSaturation", [("images", u(2, 3, 3, low=0, high=1)),
                              ("scale", np.array(F(scale)))])
for op in ("AdjustHue", "AdjustSaturation"):
    name = "delta" if op == "AdjustHue" else "scale"
    case(op, [("images", EDGES.reshape(1, 2, 4, 3)), (name, np.array(F(.8)))])
    case(op, [("images", u(2, 3)), (name, np.array(F(.8)))])
    case(op, [("images", u(1, 2, 4)), (name, np.array(F(.8)))])
    case(op, [("images", u(1, 2, 3)), (name, np.array([.8], F))])
    case(op, [("images", np.zeros((0, 2, 3), F)), (name, np.array(F(.8)))])
for dtype in types("AdjustContrastv2"):
    for factor in (0, .5, -1, 2.5):
        case("AdjustContrastv2",
             [("images", u(2, 3, 4, 3, dtype=dtype)),
              ("contrast_factor", np.array(F(factor)))])
case("AdjustContrastv2", [("images", u(2, 3)),
                          ("contrast_factor", np.array(F(1)))])

# ---- Boxes
DRAWN = np.array([[[.1, .2, .8, .7], [-.5, .3, .6, 1.5]] +
                  [[i / 12, i / 13, 1 - i / 30, 1 - i / 20]
                   for i in range(11)],
                  [[.6, .2, .5, .7], [1.5, .3, 2, .5]] +
                  [[0, 0, 1, 1]] * 11], F)
for dtype, depth in itertools.product(types("DrawBoundingBoxes"), (1, 3, 4)):
    case("DrawBoundingBoxes", [("images", u(2, 9, 11, depth, dtype=dtype)),
                               ("boxes", DRAWN)])
case("DrawBoundingBoxes", [("images", u(2, 5, 6, 2)), ("boxes", DRAWN)])
case("DrawBoundingBoxes", [("images", u(1, 5, 6, 3)), ("boxes", DRAWN)])

CORNERS = np.array([[0, 0, 1, 1], [0, .1, 1, 1.1], [0, -.1, 1, .9],
                    [0, 10, 1, 11], [1, 11.1, 0, 10.1], [0, 100, 1, 101],
                    [0, 0, 0, 1], [.2, .2, .8, .8]], F)
SCORES = np.array([.9, .75, .6, .95, .5, .3, .95, .2], F)
for dtype in types("NonMaxSuppressionV3"):
    for most, overlap, least in [(3, .5, 0), (30, .5, 0), (8, 0, 0), (8, 1, 0),
                                 (8, .5, .55), (0, .5, 0), (8, .3, -1)]:
        case("NonMaxSuppressionV3",
             [("boxes", CORNERS.astype(dtype)), ("scores", SCORES.astype(dtype)),
              ("max_output_size", np.array(most, np.int32)),
              ("iou_threshold", np.array(overlap, dtype)),
              ("score_threshold", np.array(least, dtype))])
for boxes, scores, most, overlap in [
        (CORNERS, SCORES[:3], 3, .5), (CORNERS[:, :3], SCORES, 3, .5),
        (CORNERS, SCORES, -1, .5), (CORNERS, SCORES, 3, 1.5),
        (CORNERS, SCORES, 3, -.1), (CORNERS[:0], SCORES[:0], 3, .5)]:
    case("NonMaxSuppressionV3",
         [("boxes", boxes), ("scores", scores),
          ("max_output_size", np.array(most, np.int32)),
          ("iou_threshold", np.array(overlap, F)),
          ("score_threshold", np.array(0, F))])

for dtype in types("NonMaxSuppressionV2"):
    for most, overlap in [(3, .5), (30, .5), (8, 0), (8, 1), (0, .5)]:
        case("NonMaxSuppressionV2",
             [("boxes", CORNERS.astype(dtype)),
              ("scores", (SCORES - F(.5)).astype(dtype)),
              ("max_output_size", np.array(most, np.int32)),
              ("iou_threshold", np.array(overlap, dtype))])
for dtype, pad in itertools.product(types("NonMaxSuppressionV4"),
                                    (False, True)):
    for most, overlap, least in [(3, .5, 0), (12, .5, .55), (0, .5, 0)]:
        case("NonMaxSuppressionV4",
             [("boxes", CORNERS.astype(dtype)), ("scores", SCORES.astype(dtype)),
              ("max_output_size", np.array(most, np.int32)),
              ("iou_threshold", np.array(overlap, dtype)),
              ("score_threshold", np.array(least, dtype))],
             pad_to_max_output_size=pad)
for dtype, pad in itertools.product(types("NonMaxSuppressionV5"),
                                    (False, True)):
    for most, overlap, least, sigma in [
            (3, .5, 0, 0), (12, .5, .2, .5), (12, 1, .35, .1), (6, .3, -1, 2),
            (5, .5, 0, -1)]:
        case("NonMaxSuppressionV5",
             [("boxes", CORNERS.astype(dtype)), ("scores", SCORES.astype(dtype)),
              ("max_output_size", np.array(most, np.int32)),
              ("iou_threshold", np.array(overlap, dtype)),
              ("score_threshold", np.array(least, dtype)),
              ("soft_nms_sigma", np.array(sigma, dtype))],
             pad_to_max_output_size=pad)

OVERLAPS = np.abs(np.subtract.outer(np.arange(8), np.arange(8)) * F(.3) - F(1))
for overlaps, scores, most, overlap, least in [
        (OVERLAPS, SCORES, 3, .5, 0), (OVERLAPS, SCORES, 30, .8, .4),
        (OVERLAPS, SCORES, 8, 2, -1), (OVERLAPS, SCORES, 8, -1, 0),
        (OVERLAPS[:0, :0], SCORES[:0], 3, .5, 0),
        (OVERLAPS[:7], SCORES, 3, .5, 0), (OVERLAPS, SCORES[:7], 3, .5, 0),
        (OVERLAPS, SCORES, -1, .5, 0)]:
    case("NonMaxSuppressionWithOverlaps",
         [("overlaps", overlaps), ("scores", scores),
          ("max_output_size", np.array(most, np.int32)),
          ("overlap_threshold", np.array(overlap, F)),
          ("score_threshold", np.array(least, F))])

# (TensorFlow's order of equal scores is that of an unstable sort.)
SCORES = SCORES + np.arange(8, dtype=F) / F(1000)
CLASS_SCORES = np.stack([SCORES, SCORES[::-1] * F(.9) + F(.02),
                         SCORES * F(.7) + F(.01)], 1)
for boxes, scores in [
        (CORNERS[None, :, None] / F(4), CLASS_SCORES[None]),
        (np.stack([CORNERS / F(4), CORNERS[::-1] / F(5), CORNERS / F(9)],
                  1)[None], CLASS_SCORES[None]),
        (np.stack([CORNERS, CORNERS + F(.1)])[:, :, None],
         np.stack([CLASS_SCORES, F(1) - CLASS_SCORES])),
        (CORNERS[None, :, None], CLASS_SCORES[None, :, :1])]:
    for most, total, least in [(3, 5, 0), (20, 30, .3), (1, 2, .97), (2, 9, 0)]:
        for per_class, clip in itertools.product((False, True), (False, True)):
            case("CombinedNonMaxSuppression",
                 [("boxes", boxes), ("scores", scores),
                  ("max_output_size_per_class", np.array(most, np.int32)),
                  ("max_total_size", np.array(total, np.int32)),
                  ("iou_threshold", np.array(.5, F)),
                  ("score_threshold", np.array(least, F))],
                 pad_per_class=per_class, clip_boxes=clip)
for boxes, scores, most, total, overlap in [
        (CORNERS[None, :, None], CLASS_SCORES[None], 0, 5, .5),
        (CORNERS[None, :, None], CLASS_SCORES[None], 5, 0, .5),
        (CORNERS[None, :, None], CLASS_SCORES[None], 5, 5, 1.5),
        (np.stack([CORNERS] * 2, 1)[None], CLASS_SCORES[None], 5, 5, .5),
        (CORNERS[None, :, None], CLASS_SCORES[None, :7], 5, 5, .5),
        (CORNERS[None], CLASS_SCORES[None], 5, 5, .5)]:
    case("CombinedNonMaxSuppression",
         [("boxes", boxes), ("scores", scores),
          ("max_output_size_per_class", np.array(most, np.int32)),
          ("max_total_size", np.array(total, np.int32)),
          ("iou_threshold", np.array(overlap, F)),
          ("score_threshold", np.array(0, F))],
         pad_per_class=False, clip_boxes=True)

COLOURS = np.array([[.9, .1, .2, .3], [.4, .5, .6, .7], [.25, .75, 0, 1]], F)
for dtype, depth in itertools.product(types("DrawBoundingBoxesV2"), (1, 3, 4)):
    for colours in (COLOURS, COLOURS[:0]):
        case("DrawBoundingBoxesV2",
             [("images", u(2, 9, 11, depth, dtype=dtype)), ("boxes", DRAWN),
              ("colors", colours)])
case("DrawBoundingBoxesV2",
     [("images", u(2, 5, 6, 3)), ("boxes", DRAWN), ("colors", COLOURS[:, :2])])
case("DrawBoundingBoxesV2",
     [("images", u(2, 5, 6, 3)), ("boxes", DRAWN), ("colors", COLOURS[0])])

OBJECTS = np.array([[[.1, .2, .6, .7], [.3, 0, .9, .5]]], F)
for seed, dtype in itertools.product(range(1, 13),
                                     types("SampleDistortedBoundingBoxV2")):
    case("SampleDistortedBoundingBoxV2",
         [("image_size", np.array([100, 77, 3], dtype)),
          ("bounding_boxes", OBJECTS),
          ("min_object_covered", np.array(.1 * seed, F))],
         fresh=True, seed=seed, seed2=seed * 7)
for size, boxes, covered, attrs in [
        ((640, 480, 3), OBJECTS, .1, dict(aspect_ratio_range=[.5, 2.])),
        ((640, 480, 3), OBJECTS, .5, dict(area_range=[.9, 1.])),
        ((33, 1000, 1), OBJECTS, .3, dict(aspect_ratio_range=[5., 40.])),
        ((640, 480, 3), np.zeros((1, 0, 4), F), .1,
         dict(use_image_if_no_bounding_boxes=True)),
        ((640, 480, 3), np.zeros((1, 0, 4), F), .1, dict()),
        ((3, 3, 1), OBJECTS, 1., dict(max_attempts=2)),
        ((640, 480, 3), OBJECTS + F(.5), .1, dict()),
        ((640, 480, 3), OBJECTS, -1., dict()),
        ((640, 480, 3), OBJECTS, .1, dict(area_range=[.5, 1.5])),
        ((640, 480, 3), OBJECTS, .1, dict(area_range=[0., 1.])),
        ((640, 480, 3), OBJECTS, .1, dict(aspect_ratio_range=[1.])),
        ((640, 480), OBJECTS, .1, dict())]:
    case("SampleDistortedBoundingBoxV2",
         [("image_size", np.array(size, np.int32)), ("bounding_boxes", boxes),
          ("min_object_covered", np.array(covered, F))],
         fresh=True, seed=11, seed2=13, **attrs)
