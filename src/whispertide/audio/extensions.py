"""Extensions of recordings. A folder may hold notes and pictures as well; any file can be named by itself."""

_SOUND = (
    "aac ac3 aif aifc aiff amr ape au caf eac3 flac m4a m4b mka mp2 mp3 mpga oga ogg opus spx tta voc w64 wav weba wma"
)
_FILM = "3gp avi flv m2ts m4v mkv mov mp4 mpeg mpg mts ogv vob webm wmv"
AUDIO = frozenset(f"{_SOUND} {_FILM}".split(" "))
