"""Word tables for degrade.py: English only, small, made by hand. No code beyond reading them."""

from __future__ import annotations


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """ "a=b, c=d" -> (("a", "b"), ("c", "d"))"""
    pairs = (entry.strip().split("=") for entry in text.replace("\n", " ").split(",") if entry.strip())
    return tuple((left.strip(), right.strip()) for left, right in pairs)


def _words(text: str) -> list[str]:
    return text.split()


def _map(text: str) -> dict[str, str]:
    """Both directions of each pair; the first mention of a word wins."""
    table: dict[str, str] = {}
    for left, right in _pairs(text):
        table.setdefault(left, right)
        table.setdefault(right, left)
    return table


# ------------------------------------------------------------------------------------------- closed classes

ABBREVIATIONS = frozenset(
    _words(
        """
    mr mrs ms dr prof rev hon gen col capt lt sgt maj cmdr gov sen rep pres supt st ste sr jr messrs mme
    mlle jan feb apr jun jul aug sept sep oct nov dec tue thu fri vs etc vol eds
    pp fig figs ca cf approx dept univ inc ltd co corp bros assn est ft mt ave blvd rd e.g
    i.e ph.d esq viz al
    """
    )
)

STOPWORDS = frozenset(
    _words(
        """
    a an the this that these those and or but nor so yet if then than because while when where who whom
    whose which what why how as at by for from in into of off on onto out over to under up with within
    without about above after again against all also although am among any are aren't around be been before
    being below between both can cannot could did didn't do does doesn't doing don't down during each either
    else even ever every few had hadn't has hasn't have haven't having he her here hers herself him himself
    his however i i'm i've i'll i'd is isn't it its it's itself just like many may me might mine more most
    much must my myself neither never no none not now once one only other others our ours ourselves own per
    rather same shall she should shouldn't since some such that's their theirs them themselves there there's
    therefore they they're through thus too toward towards until us upon very was wasn't we were weren't
    what's will won't would wouldn't yes you you're your yours yourself said says oh well okay ok yeah um uh
    mr mrs
    """
    )
)

PREPOSITIONS = tuple(_words("in on at of for by with from to into over under"))
CONFUSED = {  # function words, each with words that are wrong in its place almost anywhere
    left: tuple(right.split())
    for left, right in _pairs(
        """
    in=of for with to, on=of with into for, at=into for by, of=at to by into, for=at into by,
    by=of at to into, with=of at by into, from=at by into, to=of at by, into=of by at, over=of at,
    under=of at, about=at into by, and=because than if, or=than because, but=than if,
    who=whose what where, which=who whose, where=who which, when=which than, he=him, she=hers,
    they=them, his=he, their=they, her=she, them=they, him=he, my=me, your=you, i=me, we=us, our=us,
    that=who than, if=than of, because=than of, as=at of
    """
    )
}
AGREEMENT = _map("is=are, was=were, has=have, does=do, isn't=aren't, wasn't=weren't, doesn't=don't, a=an, this=these")
DROPPABLE = frozenset(
    _words(
        """
    of to in on at for with from by is was are were has had have a an the be been
    """
    )
)
AUXILIARIES = frozenset(
    _words(
        """
    is are was were has have had will would can could should does did do may might must
    """
    )
)
PRONOUNS = frozenset(
    _words(
        """
    he she it they him her them his hers its their i we you this that these those
    """
    )
)
MONTHS = tuple(
    _words(
        """
    January February March April May June July August September October November December
    """
    )
)
DAYS = tuple(_words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"))
TITLES = frozenset(
    _words(
        """
    mr mrs ms dr prof sir lady lord king queen president judge captain general governor senator
    """
    )
)

WRONG_FORMS = {  # irregular verbs: a form that is wrong where the key is right
    **dict(
        _pairs(
            """
    went=go, gone=went, said=say, made=make, took=taken, taken=took, became=becoming, came=come,
    saw=seen, seen=saw, knew=known, known=knew, gave=given, given=gave, told=tell, found=finding,
    began=begun, wrote=written, written=wrote, left=leave, felt=feel, brought=bring, thought=think,
    kept=keep, held=hold, stood=stand, heard=hear, ran=running, met=meeting, won=win, lost=lose,
    grew=grown, grown=grew, led=leading, spoke=spoken, spoken=spoke, drew=drawn, drawn=drew,
    broke=broken, fell=fallen, fallen=fell, sent=send, built=building, bought=buy, caught=catch,
    sold=sell, paid=paying, got=getting, goes=going, makes=making, takes=taking, men=mans, women=womans,
    children=childs, people=peoples, feet=foots, better=more better, best=most best, think=thinking,
    know=knowing, like=liking, love=loving, want=wanting, seen=seed, says=saying, gets=getting,
    means=meaning, needs=needing, lives=living, works=working, began=beginning, done=did, been=being,
    had=having, went=goed, eaten=ate, chosen=chose, hit=hitted, put=putted
    """
        )
    )
}

ANTONYMS = _map(
    """
    increased=decreased, increase=decrease, won=lost, win=lose, before=after, more=less, most=least,
    north=south, east=west, northern=southern, eastern=western, rise=fall, rose=fell, high=low,
    higher=lower, highest=lowest, early=late, earlier=later, old=young, older=younger, oldest=youngest,
    large=small, larger=smaller, largest=smallest, big=little, long=short, longer=shorter,
    longest=shortest, male=female, men=women, man=woman, boy=girl, father=mother, son=daughter,
    brother=sister, husband=wife, king=queen, first=last, opened=closed, open=closed, begin=end,
    began=ended, success=failure, successful=unsuccessful, success=failure, popular=unpopular,
    accepted=rejected, supported=opposed, support=oppose, allowed=forbade, buy=sell, bought=sold,
    arrived=left, entered=left, remembered=forgot, strong=weak, stronger=weaker, hot=cold, day=night,
    positive=negative, public=private, rich=poor, legal=illegal, possible=impossible, common=rare,
    guilty=innocent, approved=rejected, appointed=dismissed, hired=fired, gained=lost, peace=war,
    up=down, inside=outside, always=never, often=rarely, everyone=nobody, everything=nothing, many=few,
    all=none of, best=worst, better=worse, love=hate, loved=hated, likes=dislikes, true=false,
    right=wrong, easy=difficult, empty=full, survived=died, alive=dead, improved=worsened,
    expanded=shrank, joined=left, attack=defence, victory=defeat, major=minor, majority=minority,
    single=married, black=white, light=dark, domestic=foreign, urban=rural
    """
)

# ------------------------------------------------------------------------------ meaning-preserving tables

SYNONYMS = dict(  # the left may be replaced by the right, not the other way round unless it is listed too
    _pairs(
        """
    large=big, approximately=roughly, roughly=approximately, numerous=many, several=a number of,
    rapidly=quickly, quickly=rapidly, frequently=often, formerly=previously, permitted=allowed,
    primarily=mainly, mainly=primarily, initially=at first, subsequently=afterwards, entire=whole,
    kids=children, difficult=hard, famous=well-known, well-known=famous, whereas=while, although=though,
    nearly=almost, almost=nearly, physician=doctor, physicians=doctors, attorney=lawyer,
    attorneys=lawyers, film=movie, movie=film, films=movies, movies=films, constructed=built,
    happened=occurred, happens=occurs, resided=lived, resides=lives, commenced=began, perished=died,
    journey=trip, automobile=car, automobiles=cars, wealthy=rich, tiny=very small, huge=very large,
    enormous=huge, glad=pleased, wonderful=marvellous, fantastic=great, awesome=amazing,
    amazing=incredible, totally=completely, completely=totally, entirely=completely,
    currently=at present, until=till, among=amongst, toward=towards, regarding=about,
    annually=every year, error=mistake, errors=mistakes, mistake=error, mistakes=errors,
    crucial=essential, vital=essential, significant=important, important=significant,
    notable=noteworthy, ceased=stopped, largely=mostly, typically=usually, generally=usually,
    usually=generally, eventually=in the end, additional=further, for example=for instance,
    for instance=for example, in order to=to, due to=because of, a lot of=lots of, lots of=a lot of,
    maybe=perhaps, perhaps=maybe, i guess=I suppose, i think=I believe, purchased=bought,
    assisted=helped, attempted to=tried to, began=started, located in=situated in,
    situated in=located in, such as=like, at the age of=aged, prior to=before, shortly=soon,
    various=different, injured=hurt, main=chief, beautiful=lovely, lovely=beautiful, silent=quiet,
    each year=every year, every day=each day, chosen=selected, founded=established, portion=part,
    portions=parts, nevertheless=nonetheless, therefore=thus, hence=thus, despite=in spite of,
    in spite of=despite, demonstrated=showed, demonstrates=shows, utilized=used, assistance=help,
    additionally=also, furthermore=moreover, moreover=furthermore, immediately=at once,
    suddenly=all of a sudden, instantly=immediately, weary=tired, yelled=shouted, shouted=yelled,
    mom=mother, dad=father, folks=people, tv=television, yeah=yes, hello=hi, hi=hello,
    definitely=certainly, certainly=definitely, probably=most likely, pretty good=quite good,
    pretty much=more or less, sort of=kind of, right now=at the moment, these days=nowadays,
    nowadays=these days, each other=one another, one another=each other, no one=nobody, nobody=no one,
    everyone=everybody, everybody=everyone, someone=somebody, somebody=someone, anyone=anybody,
    anybody=anyone, replied=answered, whilst=while, upon=on, countless=innumerable,
    regularly=on a regular basis, solely=only, occasionally=now and then, rarely=seldom, seldom=rarely,
    scarcely=hardly, merely=only, ancient=very old, aided=helped, gigantic=huge, immense=huge,
    vast=very large, terrific=great, beneath=below, inhabitants=residents, residents=inhabitants,
    relatives=family members, spouse=partner, beverages=drinks, errand=task, soil=earth, dwelling=house,
    dwellings=houses, damaged=harmed, adjacent to=next to, in addition to=besides,
    as a result of=because of, in the middle of=amid, a great deal of=much, at the moment=right now,
    takes place=is held, took place=was held, so far=up to now, consists of=is made up of,
    consisted of=was made up of, is able to=can, was able to=could, were able to=could, are able to=can,
    in the course of=during, on account of=because of, throughout=all through
    """
    )
)

SPEAKING = ("said", "stated", "noted")

SPELLINGS = _map(
    """
    color=colour, colors=colours, colored=coloured, favor=favour, favorite=favourite,
    favorites=favourites, honor=honour, honored=honoured, labor=labour, neighbor=neighbour,
    neighbors=neighbours, neighborhood=neighbourhood, behavior=behaviour, harbor=harbour, humor=humour,
    center=centre, centers=centres, theater=theatre, theaters=theatres, meter=metre, meters=metres,
    kilometer=kilometre, kilometers=kilometres, defense=defence, offense=offence, license=licence,
    organize=organise, organized=organised, organization=organisation, organizations=organisations,
    recognize=recognise, recognized=recognised, realize=realise, realized=realised,
    specialized=specialised, criticized=criticised, analyze=analyse, analyzed=analysed,
    traveled=travelled, traveling=travelling, traveler=traveller, canceled=cancelled,
    modeling=modelling, program=programme, programs=programmes, catalog=catalogue, dialog=dialogue,
    gray=grey, plow=plough, jewelry=jewellery, fulfill=fulfil, enrollment=enrolment,
    skeptical=sceptical, armor=armour, rumor=rumour, rumors=rumours, flavor=flavour, flavors=flavours,
    vapor=vapour, mom=mum, airplane=aeroplane
    """
)

CONTRACTIONS = _pairs(
    """
    do not=don't, does not=doesn't, did not=didn't, is not=isn't, are not=aren't, was not=wasn't,
    were not=weren't, has not=hasn't, have not=haven't, had not=hadn't, will not=won't,
    would not=wouldn't, could not=couldn't, should not=shouldn't, cannot=can't, I am=I'm, I have=I've,
    I will=I'll, you are=you're, we are=we're, they are=they're, it is=it's, that is=that's,
    there is=there's, he is=he's, she is=she's, we have=we've, they have=they've, you have=you've, let us=let's
    """
)

NUMBER_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBER_FORMS = {word: str(number) for number, word in enumerate(NUMBER_WORDS, start=2)}
BIG_NUMBERS = (
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
    "hundred",
    "thousand",
    "million",
)

# ------------------------------------------------------------------------------------ feelings and plainness

FEELINGS = dict(  # a word of feeling -> a bland word that fits the same slot
    _pairs(
        """
    loved=knew, loves=knows, love=interest, hated=knew, hate=view, cried=said, wept=sat, sobbed=sat,
    weeping=sitting, crying=waiting, sobbing=sitting, smiled=looked, smiling=looking, smile=look,
    laughed=spoke, laughing=talking, laugh=remark, laughter=talk, feared=expected, fear=thought,
    fears=thoughts, joy=thought, tears=words, grief=business, sorrow=business, anger=manner, angry=busy,
    angrily=then, rage=manner, happy=present, unhappy=present, happiness=situation, sad=quiet,
    sadly=then, sadness=quiet, afraid=aware, terrified=aware, frightened=informed, terror=activity,
    horror=activity, horrible=certain, terrible=certain, dreadful=certain, awful=certain, lonely=alone,
    loneliness=position, hope=plan, hoped=planned, hopes=plans, hoping=planning, despair=thought,
    desperate=further, desperately=then, proud=aware, pride=manner, ashamed=aware, shame=matter,
    jealous=aware, pity=attention, heart=side, hearts=sides, beloved=known, dear=said, tender=usual,
    tenderly=then, gently=then, gentle=usual, bitter=usual, bitterly=then, anxious=ready,
    anxiously=then, anxiety=thought, worried=asked, worry=matter, excited=ready, excitement=activity,
    delighted=informed, delight=interest, surprised=informed, astonished=informed, shocked=informed,
    trembled=stood, trembling=standing, trembles=stands, shuddered=stood, screamed=spoke, scream=sound,
    shouted=spoke, whispered=said, whisper=remark, sighed=waited, sigh=pause, kissed=met, kiss=meeting,
    embraced=met, suffering=work, suffered=worked, pain=state, agony=state, misery=state,
    miserable=usual, poor=same, glad=present, eager=ready, eagerly=then, passion=interest,
    passionate=usual, cruel=usual, furious=present, gloomy=usual, cheerful=present, merry=present,
    wonder=thought, dread=thought, hurt=moved, upset=present, nervous=present, nervously=then,
    comfort=arrangement, grateful=present, guilt=matter, guilty=present, mourning=waiting,
    mourned=waited
    """
    )
)

ORNAMENTS = frozenset(  # adjectives and adverbs that can be left out without breaking a sentence
    [
        "very",
        "quite",
        "great",
        "little",
        "old",
        "young",
        "small",
        "large",
        "long",
        "short",
        "dark",
        "bright",
        "strange",
        "beautiful",
        "lovely",
        "pretty",
        "huge",
        "tiny",
        "broad",
        "narrow",
        "deep",
        "cold",
        "warm",
        "soft",
        "hard",
        "heavy",
        "light",
        "slow",
        "quick",
        "sudden",
        "silent",
        "quiet",
        "loud",
        "sharp",
        "thick",
        "thin",
        "wild",
        "gentle",
        "black",
        "white",
        "red",
        "blue",
        "green",
        "grey",
        "gray",
        "yellow",
        "golden",
        "silver",
        "brown",
        "pale",
        "ancient",
        "mysterious",
        "terrible",
        "dreadful",
        "wonderful",
        "splendid",
        "curious",
        "whole",
        "entire",
        "certain",
        "famous",
        "rich",
        "poor",
        "proud",
        "brave",
        "faithful",
        "honest",
        "wicked",
        "cruel",
        "clever",
        "foolish",
        "rough",
        "smooth",
        "empty",
        "hidden",
        "secret",
        "distant",
        "lonely",
        "solemn",
        "grim",
        "weary",
        "tired",
        "hungry",
        "angry",
        "happy",
        "sad",
        "anxious",
        "eager",
        "careful",
        "pleasant",
        "charming",
        "magnificent",
        "enormous",
        "gigantic",
        "immense",
        "vast",
        "slender",
        "tall",
        "fine",
        "rare",
        "common",
        "ordinary",
        "simple",
        "peculiar",
        "odd",
        "queer",
        "foreign",
        "local",
        "peaceful",
        "violent",
        "fierce",
        "savage",
        "bitter",
        "sweet",
        "fresh",
        "new",
        "modern",
        "stately",
        "noble",
        "elegant",
        "graceful",
        "rugged",
        "muddy",
        "dusty",
        "shabby",
        "perhaps",
        "indeed",
        "almost",
        "rather",
        "too",
        "suddenly",
        "slowly",
        "quickly",
        "softly",
        "quietly",
        "presently",
        "already",
        "certainly",
        "really",
        "merely",
        "nearly",
        "scarcely",
        "hardly",
        "always",
        "often",
    ]
)

# --------------------------------------------------------------------------------------- ready-made sentences

FILLERS = (
    "There is more to say about this.",
    "This is a topic that many people have views on.",
    "Various things happened in connection with this.",
    "A number of people were involved in one way or another.",
    "The matter has several sides, as is often the case.",
    "It remains to be seen what this will mean in the future.",
    "As with many such things, there are different opinions about it, and time will tell.",
    "Some details are known, and others are less clear at this point in time.",
    "It is an interesting subject that deserves attention.",
    "Many factors played a role here, as they usually do in situations of this kind.",
    "People have talked about it on different occasions.",
    "This has been the case for some time now.",
    "More information can be found elsewhere.",
    "It was something that took place and that some people noticed.",
)
GENERIC_REPLIES = (
    "I don't know.",
    "I don't know what to say.",
    "That's nice.",
    "Oh, I see.",
    "I'm not sure about that.",
    "That is interesting. I didn't know that.",
    "Yes, I think so too.",
    "I agree with you on that one.",
    "That is true. I think so as well.",
    "I am not sure, but I think it is a good thing.",
    "Okay, that sounds good to me.",
    "Yeah, I guess you are right about that.",
    "I think that is a very good point that you made there.",
    "I have not really thought about it. It is what it is, I guess.",
    "That is good to know. I like things like that, they are nice.",
    "Well, I don't really know much about that, but it is nice to hear about it.",
    "It depends. Some people like it and some people don't like it. I think it is okay.",
    "I think it is good. It is a good thing when things are good, and I like it when they are.",
    "Yes, I have heard about that before. I think a lot of people have heard about it as well by now.",
    "Oh, that is something. I don't have much to say about it, but I am sure that other people do, so that is fine.",
)
DULL_SENTENCES = (
    "Nothing much happened.",
    "It was an ordinary day.",
    "Time went by.",
    "Everything was as usual.",
    "They did what they always did.",
    "Then they went on with the usual things.",
    "It was neither good nor bad, and nobody said anything about it.",
    "After that, some time passed, and the day went on as days do.",
    "They walked along for a while, and there was nothing special to see.",
    "The people there did their work in the usual way, and then they went home.",
    "It was a place like any other place, with the things that one finds in such places.",
    "Someone said something about the weather, someone else agreed, and that was all there was to it.",
    "They sat down for a time and then they got up again, because there was nothing else to do that day.",
    "The next day was much like the day before it, and the day after that was much like both of them.",
)
STOCK_ENDINGS = (
    "And so everything turned out well, just as everyone had expected from the start.",
    "In the end it was all a dream, and nothing had changed.",
    "And they all lived happily ever after.",
    "Then everyone went home, as had been planned all along, and that was the end of it.",
    "It all ended exactly as they had known it would, and no one was surprised.",
)
SPOILERS = (
    "This is how it ended: {}",
    "In the end, as we shall see, it came to this: {}",
    "The story ends like this: {}",
    "It is best to tell the end first: {}",
)
STILTED = dict(
    _pairs(
        """
    yeah=indeed, yes=that is affirmative, no=that is not the case, hi=salutations,
    hello=greetings to you, hey=greetings, thanks=I extend my gratitude, like=have a preference for,
    love=hold in great esteem, think=am of the opinion, guess=would surmise, want=desire, get=obtain,
    got=obtained, really=genuinely, kids=offspring, guy=individual, guys=individuals, people=persons,
    cool=most satisfactory, great=highly commendable, awesome=most commendable,
    good=of adequate quality, movie=motion picture, movies=motion pictures, watch=view, watched=viewed,
    see=behold, saw=beheld, heard=was informed, know=am cognisant, buy=purchase, bought=purchased,
    lot=multitude, help=render assistance, need=require, start=commence, started=commenced, use=utilise,
    used=utilised, try=endeavour, big=of considerable size, funny=amusing in nature,
    home=place of residence, house=place of residence, job=occupation, food=nourishment, eat=consume,
    game=sporting contest, games=sporting contests, car=motor vehicle, dog=canine, dogs=canines,
    maybe=it may be that, sure=certainly, okay=that is acceptable, ok=that is acceptable,
    wow=how remarkable, sorry=I offer my apologies, about=with regard to, before=prior to,
    after=subsequent to, because=for the reason that, so=consequently, but=nevertheless,
    also=furthermore, tell=inform, told=informed, ask=enquire of, asked=enquired of, show=demonstrate,
    thing=matter, things=matters, day=day in question, work=gainful employment, live=reside,
    lived=resided, went=proceeded, go=proceed
    """
    )
)
STILTED_CLOSINGS = (
    "I trust that this statement meets your requirements.",
    "The foregoing is hereby submitted for your kind consideration.",
    "Kindly be advised accordingly.",
    "Please accept the assurance of my highest regard.",
    "I remain at your disposal for further enquiries in this matter.",
)
