//! Machine-translation metrics identical to sacreBLEU, plus CER and WER.
