"""Words that fill the slots of sentences. People and places are made up."""

from __future__ import annotations

FIRST = (
    "Ingrid", "Tomas", "Maria", "Oskar", "Leonie", "Pavel", "Hana", "Samir", "Greta", "Dmitri", "Yusuf", "Clara",
    "Anselm", "Beatrix", "Rohan", "Wilma", "Farid", "Noemi", "Casper", "Ottilie", "Emil", "Priya", "Ludovic",
    "Sunniva",
)  # fmt: skip
LAST = (
    "Lindqvist", "Brandt", "Okafor", "Halloran", "Petrakis", "Moreau", "Vasquez", "Tanaka", "Wexford", "Nowicki",
    "Strand", "Ibrahim", "Castellan", "Dunmore", "Feldkamp", "Rasmussen",
)  # fmt: skip
PLACES = (
    "Brackwell", "Sandmere", "Oldhaven", "Ternfield", "Kirkdale", "Lower Wending", "Ashcombe", "Velden", "Grauburg",
    "Thornby", "Eastlow", "Calder Bridge", "Winterley", "Saltney Quay", "Drumfell", "Hollin Moor",
)  # fmt: skip
FIRMS = (
    "Kestrel Joinery", "Kestrel Roofing", "Harrow Print", "Harrow Plumbing", "Blue Anchor Supplies",
    "Blue Heron Catering", "Northgate Glass", "Northgate Timber", "Meridian Travel", "Meridian Insurance",
    "Old Mill Bakery", "Old Mill Garage", "Lantern Books", "Lantern Electrics", "Copper Lane Tiles",
    "Copper Lane Dental",
)  # fmt: skip
JOBS = (
    "the staircase", "the gutters", "the brochures", "the upstairs radiator", "the rope and fenders",
    "the wedding buffet", "the shop window", "the larch boards", "the ferry tickets", "the household policy",
    "the christening cake", "the clutch", "the atlas", "the fuse board", "the bathroom floor", "the crown",
    "the garden wall", "the loft hatch", "the sash cords", "the skylight",
)  # fmt: skip
ANIMALS = (
    "bees", "goats", "quails", "ferrets", "alpacas", "carrier pigeons", "tortoises", "donkeys", "silkworms", "geese",
    "rabbits", "guinea pigs",
)  # fmt: skip
SPOTS = (
    "chapel", "old forge", "water tower", "schoolhouse", "boathouse", "tram depot", "post office", "windmill",
    "quarry", "bakery", "lighthouse", "cricket ground", "railway arches", "customs house",
)  # fmt: skip
CRAFTS = (
    "bookbinding", "fencing", "glass painting", "harmonica", "basket weaving", "falconry", "calligraphy", "tango",
    "rowing", "woodcarving", "astronomy", "archery", "juggling", "beekeeping", "sailing", "upholstery",
)  # fmt: skip
DISHES = (
    "lentil soup", "plum dumplings", "smoked eel", "saffron rice", "pickled walnuts", "rhubarb crumble", "goat curry",
    "barley bread", "chestnut tart", "beetroot salad", "fennel sausages", "quince jelly", "onion pie",
    "potato noodles",
)  # fmt: skip
THINGS = (
    "passport", "telescope", "sewing machine", "tent", "accordion", "spare key", "ladder", "pressure cooker",
    "suitcase", "chess set", "drill", "raincoat", "projector", "birth certificate", "toolbox", "record player",
)  # fmt: skip
STORES = (
    "under the stairs", "behind the wardrobe", "in the blue chest", "above the fridge", "in the cellar",
    "on the top shelf", "beside the piano", "in the glove compartment", "at the neighbour's", "in the attic",
    "under the spare bed", "in the garden shed", "in the hall cupboard", "inside the window seat",
)  # fmt: skip
DAYS = (
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
)  # fmt: skip
TIMES = (
    "at seven", "at half past six", "at a quarter to eight", "at noon", "at ten sharp", "at five in the morning",
    "around nine", "at twenty past four", "at eleven", "at half two", "just after lunch", "at dusk",
)  # fmt: skip
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
PROJECTS = (
    "Heron", "Basalt", "Juniper", "Lodestar", "Tamarind", "Osprey", "Granite", "Willow", "Compass", "Saffron",
)  # fmt: skip
